/**
 * The part of Standard Schema (https://standardschema.dev, version 1) that is used here. It is
 * an interface to be written out, so that nobody depends on anybody: zod, valibot, arktype and
 * others have it.
 */

import { PawlError } from "./errors.js";

/** A schema of any library: what it takes, and what it makes of that. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Checked<Output> | Promise<Checked<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type Checked<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/**
 * What a schema makes of a value. Throws a PawlError of kind "schema" with this reason, whose
 * `violations` are each place and what was expected there.
 */
export async function fitting<Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
  reason: string,
  what: string,
): Promise<Output> {
  const checked = await schema["~standard"].validate(value);
  if (!checked.issues) {
    return checked.value;
  }
  const violations = checked.issues.map(({ path, message }) => {
    return { field: place(path ?? []), description: message };
  });
  const text = violations.map(({ field, description }) => `at ${field}: ${description}`).join("; ");
  const field = violations[0]?.field ?? "$";
  throw new PawlError("schema", `${what}: ${text}`, { reason, metadata: { field }, violations });
}

/** Where it is, in the words of JSON paths: $.items[2].name */
function place(path: NonNullable<Issue["path"]>): string {
  const words = path.map((part) => {
    const key = typeof part === "object" ? part.key : part;
    return typeof key === "number" ? `[${key}]` : `.${String(key)}`;
  });
  return `$${words.join("")}`;
}
