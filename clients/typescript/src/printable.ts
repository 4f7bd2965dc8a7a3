/** Forms of values for JSON and for the console of Node. */

import { PawlError } from "./errors.js";
import type { Part } from "./values.js";

/** The method that `console.log` of Node calls; web pages have none. */
export const INSPECT: unique symbol = Symbol.for("nodejs.util.inspect.custom");

/** `util.inspect`, as Node passes it to the method. */
export type Inspect = (value: unknown, options: unknown) => string;

/** Returns a value without bigint and without Error. */
export function printable(value: unknown): unknown {
  if (typeof value === "bigint") {
    return String(value);
  }
  if (value instanceof Error) {
    const { name, message } = value;
    return PawlError.is(value) ? { name, reason: value.reason, message } : { name, message };
  }
  if (Array.isArray(value)) {
    return value.map(printable);
  }
  if (
    typeof value !== "object" ||
    value === null ||
    "toJSON" in value ||
    ArrayBuffer.isView(value)
  ) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, printable(item)]));
}

/** Returns a part as the JSON gateway shows it: { text: "..." }, with its other fields if set. */
export function readable({ content, ...rest }: Part): { readonly [name: string]: unknown } {
  const set = Object.entries(rest).filter(([, value]) => value !== undefined && value !== "");
  const named = content.case === undefined ? {} : { [content.case]: content.value };
  return { ...named, ...Object.fromEntries(set) };
}

/** Gives a plain object a hidden `toJSON`, by which `JSON.stringify` accepts its bigint values. */
export function withJson<T extends object>(value: T): T {
  const toJSON = () => printable({ ...value });
  return Object.defineProperty(value, "toJSON", { value: toJSON });
}
