/** Values of the AI SDK as JSON for records, and back: dates, bytes and addresses are kept. */

import type { Json } from "./plain_message.js";
import { hasLoneSurrogate, isPlain, replaceLoneSurrogates } from "./unicode.js";

/** Keys of objects that stand for a value without a JSON form. */
const DATE = "$date";
const BYTES = "$bytes";
const ADDRESS = "$url";
/** Key of an object that stands for an object of the program that has one of these keys itself. */
const ESCAPED = "$value";

/** How many levels a recorded value has at most; deeper ones are left out. */
const DEEPEST = 100;

/**
 * Returns a value as JSON. Functions, symbols and properties that are `undefined` are left
 * out; NaN and infinities become null.
 */
export function recordable(value: unknown, depth = 0): Json {
  switch (typeof value) {
    case "string":
      return hasLoneSurrogate(value) ? replaceLoneSurrogates(value) : value;
    case "number":
      return Number.isFinite(value) ? value : null;
    case "boolean":
      return value;
    case "bigint":
      return String(value);
    case "object":
      return value === null || depth > DEEPEST ? null : objectOf(value, depth);
    default:
      return null;
  }
}

function objectOf(value: object, depth: number): Json {
  if (Array.isArray(value)) {
    return value.map((item) => recordable(item, depth + 1));
  }
  if (isDate(value)) {
    return Number.isNaN(Number(value)) ? null : { [DATE]: value.toISOString() };
  }
  if (value instanceof Uint8Array) {
    return { [BYTES]: Buffer.from(value).toString("base64") };
  }
  if (value instanceof URL) {
    return { [ADDRESS]: value.href };
  }
  if (!isPlain(value) && typeof (value as { toJSON?: unknown }).toJSON === "function") {
    return recordable((value as { toJSON(): unknown }).toJSON(), depth + 1);
  }
  const entries = Object.entries(value)
    .filter(([, item]) => !["undefined", "function", "symbol"].includes(typeof item))
    .map(([name, item]): [string, Json] => {
      return [replaceLoneSurrogates(name), recordable(item, depth + 1)];
    });
  const made = Object.fromEntries(entries);
  return entries.some(([name]) => MARKS.includes(name)) ? { [ESCAPED]: made } : made;
}

/** Whether a value is a Date, also of another realm. */
export function isDate(value: object): value is Date {
  return Object.prototype.toString.call(value) === "[object Date]";
}

const MARKS = [DATE, BYTES, ADDRESS, ESCAPED];

/** Returns the value of a record. */
export function recorded(json: Json | undefined): unknown {
  if (Array.isArray(json)) {
    return json.map(recorded);
  }
  if (typeof json !== "object" || json === null) {
    return typeof json === "bigint" ? Number(json) : json;
  }
  const { [DATE]: date, [BYTES]: bytes, [ADDRESS]: address, [ESCAPED]: escaped } = json as Marked;
  if (typeof date === "string") {
    return new Date(date);
  }
  if (typeof bytes === "string") {
    return new Uint8Array(Buffer.from(bytes, "base64"));
  }
  if (typeof address === "string") {
    return new URL(address);
  }
  return membersOf((escaped ?? json) as { readonly [name: string]: Json });
}

interface Marked {
  readonly [DATE]?: Json;
  readonly [BYTES]?: Json;
  readonly [ADDRESS]?: Json;
  readonly [ESCAPED]?: Json;
}

function membersOf(json: { readonly [name: string]: Json }): unknown {
  return Object.fromEntries(Object.entries(json).map(([name, item]) => [name, recorded(item)]));
}

/** Returns the JSON text of a value as `recordable` converts it, to compare and measure it. */
export function recordableText(value: unknown): string {
  return JSON.stringify(recordable(value));
}

/** Returns the value as the record has it. */
export function asRecorded<T>(value: T): T {
  return recorded(recordable(value)) as T;
}
