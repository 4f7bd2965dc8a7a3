/**
 * Texts without lone surrogates. A JavaScript text can contain half of a surrogate pair, which has
 * no UTF-8 form: such text of a program is refused with its place, and that of models and older
 * journals is repaired.
 */

/** Whether a text has a lone surrogate. */
export function hasLoneSurrogate(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}

/** Returns the text with U+FFFD in place of each lone surrogate. */
export function replaceLoneSurrogates(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}

/**
 * Returns a value with all texts repaired, property names included; bytes and other objects are
 * unchanged.
 */
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

/** Whether an object is a plain one, also of another realm. */
export function isPlain(value: object): boolean {
  const made = Object.getPrototypeOf(value);
  return made === null || Object.getPrototypeOf(made) === null;
}
