/** What the driver writes: one JSON value a line. */

import { writeSync } from "node:fs";

/** Writes a line at once: a process that is killed next has said it. */
export function write(line: unknown): void {
  let rest = Buffer.from(`${JSON.stringify(line)}\n`);
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
