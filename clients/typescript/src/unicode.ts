/**
 * Texts in whole characters. JavaScript's may have half of one, a surrogate without its other
 * one, which has no UTF-8: what a program gives is refused with its place, and what models and
 * journals of earlier programs say is repaired.
 */

/** Whether a text has half a character. */
export function hasLoneSurrogate(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}

/** The text with U+FFFD in place of each half. */
export function replaceLoneSurrogates(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}

/** A value with every text, names of properties too, in whole characters; bytes and the like as they are. */
export function replaceLoneSurrogatesIn<T>(value: T): T {
  return repaired(value) as T;
}

function repaired(value: unknown): unknown {
  if (typeof value === "string") {
    return replaceLoneSurrogates(value);
  }
  if (Array.isArray(value)) {
    return value.map(repaired);
  }
  if (typeof value !== "object" || value === null || !isPlain(value)) {
    return value;
  }
  const entries = Object.entries(value);
  return Object.fromEntries(
    entries.map(([name, item]) => [replaceLoneSurrogates(name), repaired(item)]),
  );
}

/** Whether an object has only its own properties; objects of other realms count too. */
export function isPlain(value: object): boolean {
  const made = Object.getPrototypeOf(value);
  return made === null || Object.getPrototypeOf(made) === null;
}
