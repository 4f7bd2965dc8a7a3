/** What the driver writes: one JSON value a line. */

import { writeSync } from "node:fs";

/** JSON text. Whole numbers beyond 2^53, which the client reads as bigint, become numbers: the runner has no others. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(value, (_, item) => (typeof item === "bigint" ? Number(item) : item));
}

/** Writes a line at once: a process that is killed next has said it. */
export function write(line: unknown): void {
  let rest = Buffer.from(`${jsonOf(line)}\n`);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if ((error as { code?: string }).code !== "EAGAIN") {
        throw error;
      }
    }
  }
}

/** Reports what a handler does. */
export function event(kind: string, fields: Readonly<Record<string, unknown>> = {}): void {
  write({ event: { kind, ...fields } });
}
