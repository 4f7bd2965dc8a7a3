/** The value that an answer must have, by a schema of the program. */

import { PawlError } from "./errors.js";
import { parseExact } from "./exact_json.js";
import type { Json } from "./plain_message.js";
import { checkIsSchema, checkSchema } from "./schema.js";
import { fitting, type StandardSchema } from "./standard_schema.js";

/** A schema of zod or of another library with Standard JSON Schema, or a JSON Schema. */
export type Output<T = unknown> = StandardSchema<unknown, T> | { readonly [word: string]: Json };

/** A schema that declares the type of its result. */
interface Typed<T> {
  readonly "~standard": { readonly types?: { readonly output: T } | undefined };
}

/** The type of a schema's value, or the union of the types of all prompts. */
export type ValueOf<O> =
  O extends Typed<infer T> ? T : O extends { readonly [prompt: string]: Typed<infer T> } ? T : Json;

/** The schema of a value, and the functions that read the value. */
export interface Form {
  readonly schema: Json;
  /** Reads a value from JSON text; otherwise returns the reason for the model. */
  text(text: string): Promise<Read>;
  /** Checks a value; otherwise returns the reason for the model. */
  value(given: Json): Promise<Read>;
}

/** A value, or the reason why it does not fit, for the model. */
export type Read = { readonly value: Json } | { readonly fault: string };

/** Returns the form of each prompt. Throws a RangeError for an invalid schema. */
export function outputsOf(output: unknown): (prompt: string) => Form | undefined {
  if (output === undefined) {
    return () => undefined;
  }
  if (!isObject(output)) {
    throw new RangeError(
      "output: must be a schema, or an object with one schema for each prompt id",
    );
  }
  if (!isMap(output)) {
    const form = formOf(output as Output, "output");
    return () => form;
  }
  const forms = Object.entries(output).map(([prompt, schema]): [string, Form] => {
    return [prompt, formOf(schema as Output, `output.${prompt}`)];
  });
  const byPrompt = new Map(forms);
  return (prompt) => byPrompt.get(prompt);
}

/** Keywords of JSON Schema whose value is an object or a list. */
const WORDS = ["properties", "items", "$defs", "not", "anyOf", "oneOf", "allOf", "enum"];

/** Whether the value has a schema for each prompt, and is no schema itself. */
function isMap(output: object): boolean {
  const entries = Object.entries(output);
  return (
    !("~standard" in output) &&
    entries.length > 0 &&
    entries.every(([name, value]) => isObject(value) && !WORDS.includes(name))
  );
}

function isObject(value: unknown): value is object {
  return (typeof value === "object" || typeof value === "function") && value !== null;
}

function formOf(output: Output, field: string): Form {
  return isStandard(output) ? standardForm(output, field) : jsonForm(output, field);
}

function isStandard(output: Output): output is StandardSchema {
  return "~standard" in output;
}

function jsonForm(schema: { readonly [word: string]: Json }, field: string): Form {
  if (!isObject(schema) || Array.isArray(schema)) {
    throw new RangeError(`${field}: must be a JSON Schema, as an object`);
  }
  try {
    checkIsSchema(schema, field);
  } catch (error) {
    throw new RangeError(error instanceof Error ? error.message : String(error));
  }
  return read(schema, async (value) => {
    checkSchema(value, schema, "the answer");
    return value;
  });
}

function standardForm(schema: StandardSchema, field: string): Form {
  return read(closed(jsonSchemaOf(schema, field)), async (value) => {
    return (await fitting(schema, value, "SCHEMA", "the answer")) as Json;
  });
}

function read(schema: Json, check: (value: Json) => Promise<Json>): Form {
  const value = async (given: Json): Promise<Read> => {
    try {
      return { value: await check(given) };
    } catch (error) {
      if (PawlError.is(error, "SCHEMA", "INVALID_JSON")) {
        return { fault: error.message };
      }
      throw error;
    }
  };
  const text = async (message: string): Promise<Read> => {
    let given: Json;
    try {
      given = parseExact(bare(message));
    } catch {
      return { fault: "it is no JSON" };
    }
    return value(given);
  };
  return { schema, text, value };
}

/** Removes a code fence, into which models often put JSON. */
function bare(text: string): string {
  return /^\s*```(?:json)?\s*\n([\s\S]*?)\n?\s*```\s*$/.exec(text)?.[1] ?? text;
}

/** Returns the JSON Schema of a schema's input: https://standardschema.dev/json-schema */
export function jsonSchemaOf(schema: StandardSchema, field: string): Json {
  const { jsonSchema, vendor } = schema["~standard"] as unknown as {
    readonly jsonSchema?: { readonly input?: (options: { target: string }) => unknown };
    readonly vendor: string;
  };
  if (typeof jsonSchema?.input !== "function") {
    const text = `${field}: this version of ${vendor} cannot make a JSON Schema; give a JSON Schema instead`;
    throw new RangeError(text);
  }
  const { $schema: _, ...report } = jsonSchema.input({ target: "draft-2020-12" }) as {
    readonly [word: string]: Json;
  };
  return report;
}

/** Returns the schema without further properties of objects, as strict endpoints require. */
function closed(schema: Json): Json {
  if (Array.isArray(schema)) {
    return schema.map(closed);
  }
  if (typeof schema !== "object" || schema === null) {
    return schema;
  }
  const entries = Object.entries(schema).map(([name, value]) => [name, closed(value)]);
  const same = Object.fromEntries(entries) as { readonly [word: string]: Json };
  return same.type === "object" && same.properties && same.additionalProperties === undefined
    ? { ...same, additionalProperties: false }
    : same;
}

/** Returns the schema as that of an object's property, with its references adapted. */
export function asProperty(schema: Json, name: string): Json {
  if (Array.isArray(schema)) {
    return schema.map((item) => asProperty(item, name));
  }
  if (typeof schema !== "object" || schema === null) {
    return schema;
  }
  const entries = Object.entries(schema).map(([word, value]): [string, Json] => {
    const own = word === "$ref" && typeof value === "string" && value.startsWith("#");
    return [word, own ? `#/properties/${name}${value.slice(1)}` : asProperty(value, name)];
  });
  return Object.fromEntries(entries);
}
