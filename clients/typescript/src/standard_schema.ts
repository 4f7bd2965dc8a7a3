/**
 * The used part of Standard Schema (https://standardschema.dev, version 1). Libraries copy this
 * interface instead of depending on a package; zod, valibot, arktype and others implement it.
 */

import { PawlError } from "./errors.js";

/** A schema of any library: the type of its input, and the type of its result. */
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
 * Returns the result of a schema for a value. Throws a PawlError of kind "schema" with this reason;
 * its `violations` have each invalid place and the expected value.
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
  const violations = checked.issues.flatMap(chosen).map(({ path, message }) => {
    const keys = (path ?? []).map(keyOf);
    const tags = tagsOn(schema, value, keys).map((tag) => `of ${tag}: `);
    return { field: place(keys), description: `${tags.reverse().join("")}${message}` };
  });
  const text = violations.map(({ field, description }) => `at ${field}: ${description}`).join("; ");
  const field = violations[0]?.field ?? "$";
  throw new PawlError("schema", `${what}: ${text}`, { reason, metadata: { field }, violations });
}

/** Returns a place as a JSON path: $.items[2].name */
function place(keys: readonly PropertyKey[]): string {
  const words = keys.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`));
  return `$${words.join("")}`;
}

function keyOf(part: PropertyKey | { readonly key: PropertyKey }): PropertyKey {
  return typeof part === "object" ? part.key : part;
}

/**
 * Returns the issue, or those of the union alternative whose constants match the value. Zod has the
 * issues of all alternatives in `errors`.
 */
function chosen(issue: Issue): readonly Issue[] {
  const { errors } = issue as { readonly errors?: unknown };
  const sets = Array.isArray(errors) ? (errors as (Issue & { code?: unknown })[][]) : [];
  const meant = sets.filter((set) => {
    return (
      set.length > 0 &&
      !set.some(({ code, path }) => code === "invalid_value" && path?.length === 1)
    );
  });
  return meant.length === 1
    ? (meant[0] ?? []).map((one) => ({
        ...one,
        path: [...(issue.path ?? []), ...(one.path ?? [])],
      }))
    : [issue];
}

/** The used fields of a schema of zod, the only library that names the tag of a union. */
interface ZodDef {
  readonly shape?: { readonly [name: string]: unknown };
  readonly element?: unknown;
  readonly innerType?: unknown;
  readonly in?: unknown;
  readonly discriminator?: string;
  readonly options?: readonly unknown[];
}

/** Returns the tags of the discriminated unions on the path to a place, the outermost first. */
function tagsOn(schema: unknown, value: unknown, keys: readonly PropertyKey[]): string[] {
  const tags: string[] = [];
  let [at, here] = [schema, value];
  for (const key of keys) {
    const { shape, element } = defOf(memberOf(at, here, tags));
    at = shape?.[String(key)] ?? element;
    here =
      typeof here === "object" ? (here as { [key: PropertyKey]: unknown } | null)?.[key] : here;
  }
  return tags;
}

/** Returns the schema within wrappers and unions that a value must fit, and their tags. */
function memberOf(schema: unknown, value: unknown, tags: string[]): unknown {
  let at = schema;
  for (;;) {
    const { innerType, in: first, discriminator, options } = defOf(at);
    if (discriminator === undefined || !options) {
      if (innerType === undefined && first === undefined) {
        return at;
      }
      at = innerType ?? first;
      continue;
    }
    const tag = (value as { [name: string]: unknown } | null | undefined)?.[discriminator];
    const member = options.find((option) => hasTag(option, discriminator, tag));
    if (member === undefined) {
      return undefined;
    }
    tags.push(String(tag));
    at = member;
  }
}

function hasTag(option: unknown, discriminator: string, tag: unknown): boolean {
  const literal = defOf(option).shape?.[discriminator];
  const { values } =
    (literal as { _zod?: { values?: ReadonlySet<unknown> } } | undefined)?._zod ?? {};
  return values?.has(tag) ?? false;
}

function defOf(schema: unknown): ZodDef {
  return (schema as { _zod?: { def?: ZodDef } } | undefined)?._zod?.def ?? {};
}
