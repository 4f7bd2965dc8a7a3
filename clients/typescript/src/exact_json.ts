/** JSON with exact whole numbers: one that a number of JavaScript cannot hold is a bigint. */

/**
 * Any JSON value. In payloads, results, variables and artifacts, whole numbers that a number cannot
 * hold exactly are bigint, both read and written; elsewhere they are rounded.
 */
export type Json =
  | string
  | number
  | bigint
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json };

/** A string, which is not changed, or a number. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** A number may lose digits from this length on. */
const LONG = /\d{16}/;

/** Parses JSON text. Throws a SyntaxError for other text. */
export function parseExact(text: string): Json {
  const value = JSON.parse(text) as Json;
  if (!LONG.test(text)) {
    return value;
  }
  const mark = markFor(text);
  const marked = text.replace(TOKEN, (token) => (isInexact(token) ? `"${mark}${token}"` : token));
  return JSON.parse(marked, (_, item: unknown) => {
    return typeof item === "string" && item.startsWith(mark)
      ? BigInt(item.slice(mark.length))
      : item;
  }) as Json;
}

function isInexact(token: string): boolean {
  return /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token));
}

/** Returns a word that does not occur in the text. */
function markFor(text: string): string {
  for (let mark = "bigint "; ; mark += "_ ") {
    if (!text.includes(mark)) {
      return mark;
    }
  }
}
