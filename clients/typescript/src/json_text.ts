/**
 * The one way from a value of a program to JSON text: what is given, returned and written. A
 * value is taken as it is or refused with its place; no value becomes `null` or `{}` on the way.
 */

import { isBranded } from "./brand.js";
import { PawlError } from "./errors.js";
import { hasLoneSurrogate, isPlain, replaceLoneSurrogates } from "./unicode.js";

/** How deep objects and arrays nest in what the sidecar takes, the outermost counted. */
const DEEPEST = 128;
/** The longest place that an error names, characters. */
const LONGEST_PLACE = 256;

/**
 * JSON text of a value. Throws a PawlError (INVALID_JSON) that names the place of what JSON
 * cannot hold; `field` is what the value as a whole is called.
 *
 * A property that is `undefined` is left out. An object that says by `toJSON` what it is as JSON
 * is that, as a Date. What is refused: NaN and infinities, `undefined` in an array, functions,
 * symbols, bytes, instances of classes (Map, Set and Error among them), texts with half a
 * character, and what nests too deep or holds itself.
 */
export function toJsonText(value: unknown, field: string): string {
  if (!isBranded(value, "JsonText")) {
    return new Writer(field).text(value);
  }
  const marked = value as { readonly value: unknown; readonly text?: string };
  return marked.text ?? new Writer(field).text(marked.value);
}

/** The same text. Throws a PawlError (INVALID_TEXT) if it has half a character. */
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
      // By index: what an array leaves out is undefined.
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

  /** An object that is no plain one: what its toJSON says. */
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

/** Whether it is a Date without a time, which would say null. */
function isNoMoment(value: object): boolean {
  const isDate = Object.prototype.toString.call(value) === "[object Date]";
  return isDate && Number.isNaN(Number(value));
}

/** What an object that is refused is called. */
function kindOf(value: object): string {
  if (isNoMoment(value)) {
    return "an invalid Date";
  }
  const name = Object.getPrototypeOf(value)?.constructor?.name;
  return typeof name === "string" && name ? `an instance of ${name}` : "an object of a class";
}
