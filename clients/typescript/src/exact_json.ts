/**
 * JSON with whole numbers to the last digit: what a number of JavaScript cannot hold
 * is a bigint.
 */

/**
 * Any JSON value. Whole numbers of payloads, results, variables and artifacts that a number
 * cannot hold exactly are bigint, read and given; where else, they are rounded.
 */
export type Json =
  | string
  | number
  | bigint
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json };

/** A string, which is left alone, or a number. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** So many digits in a row may be more than a number holds. */
const LONG = /\d{16}/;

/** Reads JSON text. Throws a SyntaxError for what is none. */
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

/** A word that the text has nowhere. */
function markFor(text: string): string {
  for (let mark = "bigint "; ; mark += "_ ") {
    if (!text.includes(mark)) {
      return mark;
    }
  }
}
