/** JSON Schema checks of tool payloads and results. */

import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { PawlError } from "./errors.js";
import { toJsonText } from "./json_text.js";
import type { Json } from "./plain.js";

const MOST_CACHED = 256;
const compiled = new Map<string, ValidateFunction>();

/** Throws a PawlError of kind "schema" that names the first place that does not fit. */
export function checkSchema(value: Json, schema: Json, what: string): void {
  const validate = compile(schema, what);
  if (validate(JSON.parse(toJsonText(value, what)))) {
    return;
  }
  const fault = validate.errors?.[0];
  const field = fault?.instancePath || "/";
  throw new PawlError("schema", `${what}: at ${field}: ${fault?.message ?? "does not fit"}`, {
    reason: "SCHEMA",
    metadata: { field },
  });
}

/** Throws a PawlError of kind "schema" for what is no JSON Schema. */
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
    // A compiler of its own: schemas of different packs may share an $id.
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    validate = ajv.compile(JSON.parse(key) as object | boolean);
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new PawlError("schema", `${what}: its schema is invalid: ${text}`, {
      reason: "BAD_SCHEMA",
      cause,
    });
  }
  if (compiled.size >= MOST_CACHED) {
    compiled.clear();
  }
  compiled.set(key, validate);
  return validate;
}
