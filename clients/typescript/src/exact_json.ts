/**
 * JSON whose whole numbers are kept to the last digit: what a number of JavaScript cannot hold
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

/** JSON text of a value; undefined: JSON cannot hold it. */
export function textOfJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof TypeError)) {
      throw error;
    }
    return textWithBigints(value); // Or it holds itself, which is told there as well.
  }
}

function textWithBigints(value: unknown): string | undefined {
  const found: string[] = [];
  const mark = `bigint ${crypto.randomUUID()} `;
  const text = JSON.stringify(value, (_, item: unknown) => {
    if (typeof item !== "bigint") {
      return item;
    }
    found.push(String(item));
    return `${mark}${item}`;
  }) as string | undefined;
  return found.reduce<string | undefined>((left, digits) => {
    return left?.replace(`"${mark}${digits}"`, digits);
  }, text);
}

/** The same with numbers alone, as good as those are: for checks against a schema. */
export function rounded(value: unknown): unknown {
  if (typeof value === "bigint") {
    return Number(value);
  }
  if (Array.isArray(value)) {
    return value.map(rounded);
  }
  return typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).map(([name, item]) => [name, rounded(item)]))
    : value;
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
