/** Keys of the tool calls that a model asks for. */

import { createHash } from "node:crypto";
import type { Json } from "./plain.js";

const KEY_DIGITS = 24;

/**
 * Gives the same call the same key in every attempt, whatever else is asked: its tool
 * and arguments, and how many times they came up. The Python client makes the same keys,
 * so that a turn may move between workers of both.
 */
export class CallKeys {
  readonly #seen = new Map<string, number>();

  /** The key of the next call with these arguments. */
  next(tool: string, given: Json): string {
    const hash = createHash("sha256").update(canonical([tool, given]));
    const digest = hash.digest("hex").slice(0, KEY_DIGITS);
    const count = (this.#seen.get(digest) ?? 0) + 1;
    this.#seen.set(digest, count);
    return `${digest}.${count}`;
  }
}

/** JSON with sorted keys, a space after `,` and `:`, and nothing but ASCII. */
function canonical(value: Json): string {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join(", ")}]`;
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value as { [key: string]: Json }).sort(byKey);
    return `{${entries.map(([key, item]) => `${canonical(key)}: ${canonical(item)}`).join(", ")}}`;
  }
  return JSON.stringify(value).replace(/[\x7f-\uffff]/g, escaped);
}

function byKey([a]: [string, Json], [b]: [string, Json]): number {
  return a < b ? -1 : 1;
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
