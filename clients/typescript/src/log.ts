/** The client's log: warnings that no error reports. */

import { deliberate, textOf } from "./handler_fault.js";

/**
 * What workers and driven runs say: connections, and errors of handlers with their stacks.
 *
 *     const client = new PawlClient({ log: { info: () => {}, warn: console.warn } });
 */
export interface Log {
  info(text: string): void;
  /** `error` is what a handler threw, where one did. */
  warn(text: string, error?: unknown): void;
}

/** Writes to standard error. */
export const STDERR: Log = {
  info: (text) => console.error(text),
  warn: (text, ...error) => console.error(text, ...error),
};

/** Warns of an error, with where it was thrown unless a handler meant to. Never throws. */
export function warnOf(log: Log, what: string, error: unknown): void {
  try {
    if (deliberate(error)) {
      log.warn(`${what} ${textOf(error)}`);
    } else {
      log.warn(what, error);
    }
  } catch {
    // The log's own fault, or an error without a readable message.
  }
}
