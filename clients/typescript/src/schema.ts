/** Checks payloads and results of tools against JSON Schema. */

import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import { PawlError } from "./errors.js";
import { toJsonText } from "./json_text.js";
import type { Json } from "./plain_message.js";

const MAX_CACHED = 256;
const compiled = new Map<string, ValidateFunction>();

/**
 * Throws a PawlError of kind "schema" that names the first invalid place; `metadata` describes the
 * value for programs.
 */
export function checkSchema(
  value: Json,
  schema: Json,
  what: string,
  metadata: PawlError["metadata"] = {},
): void {
  const validate = compile(schema, what);
  if (validate(JSON.parse(toJsonText(value, what)))) {
    return;
  }
  const fault = meant(validate.errors ?? []);
  const field = fault?.instancePath || "/";
  throw new PawlError("schema", `${what}: at ${field}: ${fault?.message ?? "does not fit"}`, {
    reason: "SCHEMA",
    metadata: { ...metadata, field },
  });
}

/**
 * Returns the first error, without errors of union alternatives that have another constant than the
 * value.
 */
function meant(errors: readonly ErrorObject[]): ErrorObject | undefined {
  if (!errors.some(({ keyword }) => keyword === "oneOf" || keyword === "anyOf")) {
    return errors[0];
  }
  return errors.find((error) => !isTag(error) && !hasOtherTag(error)) ?? errors.at(-1);
}

function isTag({ keyword }: ErrorObject): boolean {
  return keyword === "const" || keyword === "enum";
}

function hasOtherTag({ parentSchema, data }: ErrorObject): boolean {
  const properties = Object.entries(parentSchema?.properties ?? {});
  return properties.some(([name, property]) => {
    const tag = (property as { const?: unknown }).const;
    return tag !== undefined && (data as { [name: string]: unknown } | null)?.[name] !== tag;
  });
}

/** Throws a PawlError of kind "schema" for an invalid JSON Schema. */
export function checkIsSchema(schema: Json, what: string): void {
  compile(schema, what);
}

function compile(schema: Json, what: string): ValidateFunction {
  const key = toJsonText(schema, "schema");
  const known = compiled.get(key);
  if (known) {
    return known;
  }
  let validate: ValidateFunction;
  try {
    // Each schema has its own compiler: schemas of different packs may share an $id.
    const ajv = new Ajv2020({ strict: false, validateFormats: false, verbose: true });
    validate = ajv.compile(JSON.parse(key) as object | boolean);
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new PawlError("schema", `${what}: its schema is invalid: ${text}`, {
      reason: "BAD_SCHEMA",
      cause,
    });
  }
  if (compiled.size >= MAX_CACHED) {
    compiled.clear();
  }
  compiled.set(key, validate);
  return validate;
}
