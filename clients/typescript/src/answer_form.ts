/** The JSON that an answer in text has to be. */

import { PawlError } from "./errors.js";
import { parseExact } from "./exact_json.js";
import type { Json } from "./plain.js";
import { checkIsSchema, checkSchema } from "./schema.js";

/** Throws a RangeError for what is no JSON Schema of an object's form. */
export function checkForm(schema: Json | undefined): void {
  if (schema === undefined) {
    return;
  }
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
    throw new RangeError("responseSchema: a JSON Schema, as an object");
  }
  try {
    checkIsSchema(schema, "responseSchema");
  } catch (error) {
    throw new RangeError(error instanceof Error ? error.message : String(error));
  }
}

/** The value of an answer, or what the model is told is wrong with it. */
export function formed(
  text: string,
  schema: Json,
): { readonly value: Json } | { readonly fault: string } {
  let value: Json;
  try {
    value = parseExact(text);
  } catch {
    return { fault: "it is no JSON" };
  }
  try {
    checkSchema(value, schema, "the answer");
    return { value };
  } catch (error) {
    if (PawlError.is(error, "SCHEMA", "INVALID_JSON")) {
      return { fault: error.message };
    }
    throw error;
  }
}
