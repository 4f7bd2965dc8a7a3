/**
 * Converts values of a program to JSON text. A value is converted unchanged or refused with its
 * place; no value silently becomes `null` or `{}`.
 */

import { isBranded } from "./brand.js";
import { PawlError } from "./errors.js";
import { hasLoneSurrogate, isPlain, replaceLoneSurrogates } from "./unicode.js";

/** How many levels of objects and arrays the sidecar accepts, the outermost included. */
const DEEPEST = 128;
/** Longest place that an error names, in characters. */
const LONGEST_PLACE = 256;

/**
 * Returns the JSON text of a value. Throws a PawlError (INVALID_JSON) that names the place of a
 * value without a JSON form; `field` is the name of the whole value.
 *
 * A property that is `undefined` is left out. An object with a `toJSON`, for example a Date, is
 * replaced by its result. Refused are NaN and infinities, `undefined` in an array, functions,
 * symbols, bytes, instances of classes (Map, Set and Error among them), text with a lone surrogate,
 * and values that are nested too deeply or contain themselves.
 */
export function toJsonText(value: unknown, field: string): string {
  if (!isBranded(value, "JsonText")) {
    return new Writer(field).text(value);
  }
  const marked = value as { readonly value: unknown; readonly text?: string };
  return marked.text ?? new Writer(field).text(marked.value);
}

/** Returns the text unchanged. Throws a PawlError (INVALID_TEXT) if it has a lone surrogate. */
export function wholeText(text: string, field: string): string {
  if (hasLoneSurrogate(text)) {
    throw refusal("INVALID_TEXT", field, "a text with half a character (a lone surrogate)");
  }
  return text;
}

class Writer {
  readonly #field: string;
  readonly #path: (string | number)[] = [];

  constructor(field: string) {
    this.#field = field;
  }

  text(value: unknown): string {
    try {
      return this.#write(value);
    } catch (thrown) {
      // A getter or a toJSON of the program threw, perhaps a value that is no Error.
      throw PawlError.is(thrown, "INVALID_JSON") ? thrown : this.#refusal("it throws", thrown);
    }
  }

  #write(value: unknown): string {
    switch (typeof value) {
      case "string":
        return this.#quoted(value);
      case "number":
        return Number.isFinite(value) ? String(value) : this.#refuse(`${value}`);
      case "bigint":
      case "boolean":
        return String(value);
      case "object":
        return value === null ? "null" : this.#object(value);
      default:
        return this.#refuse(value === undefined ? "undefined" : `a ${typeof value}`);
    }
  }

  #quoted(text: string): string {
    return hasLoneSurrogate(text)
      ? this.#refuse("a text with half a character (a lone surrogate)")
      : JSON.stringify(text);
  }

  #object(value: object): string {
    if (this.#path.length >= DEEPEST) {
      this.#refuse(`a value that nests more than ${DEEPEST} deep, or holds itself,`);
    }
    if (Array.isArray(value)) {
      // By index, because a hole of an array is undefined.
      const items = Array.from(value, (item, index) => this.#member(index, item));
      return `[${items.join(",")}]`;
    }
    return isPlain(value) && !hasToJSON(value) ? this.#members(value) : this.#serialized(value);
  }

  #members(value: object): string {
    const texts: string[] = [];
    for (const [name, item] of Object.entries(value)) {
      if (item !== undefined) {
        texts.push(`${this.#quoted(name)}:${this.#member(name, item)}`);
      }
    }
    return `{${texts.join(",")}}`;
  }

  #member(key: string | number, item: unknown): string {
    this.#path.push(key);
    const text = this.#write(item);
    this.#path.pop();
    return text;
  }

  /** Converts an object that is no plain one, by its toJSON. */
  #serialized(value: object): string {
    if (ArrayBuffer.isView(value) || !hasToJSON(value) || isNoMoment(value)) {
      return this.#refuse(kindOf(value));
    }
    const report = value.toJSON(String(this.#path.at(-1) ?? ""));
    return typeof report === "object" && report !== null && hasToJSON(report)
      ? this.#refuse(kindOf(value))
      : this.#write(report);
  }

  #refuse(what: string): never {
    throw this.#refusal(`${what} is no JSON`);
  }

  #refusal(what: string, cause?: unknown): PawlError {
    const path = this.#path.map((key) => {
      return typeof key === "number" ? `[${key}]` : `.${replaceLoneSurrogates(key)}`;
    });
    const place = `${this.#field}${path.join("")}`;
    const shown = place.length > LONGEST_PLACE ? `${place.slice(0, LONGEST_PLACE)}...` : place;
    return refusal("INVALID_JSON", replaceLoneSurrogates(shown), what, cause);
  }
}

function refusal(reason: string, field: string, what: string, cause?: unknown): PawlError {
  return new PawlError("request", `${field}: ${what}`, { reason, metadata: { field }, cause });
}

function hasToJSON(value: object): value is { toJSON(key: string): unknown } {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

/** Whether the value is an invalid Date, whose JSON would be null. */
function isNoMoment(value: object): boolean {
  const isDate = Object.prototype.toString.call(value) === "[object Date]";
  return isDate && Number.isNaN(Number(value));
}

/** Returns the name of a refused object for the message. */
function kindOf(value: object): string {
  if (isNoMoment(value)) {
    return "an invalid Date";
  }
  const name = Object.getPrototypeOf(value)?.constructor?.name;
  return typeof name === "string" && name ? `an instance of ${name}` : "an object of a class";
}
