/** The client's log, for warnings that no error reports. */

import type { PawlError } from "./errors.js";
import { deliberate } from "./handler_fault.js";

/**
 * Receives messages about connections, repeated calls, and errors and mistakes of handlers.
 *
 *     const client = new PawlClient({ log: { info: () => {}, warn: console.warn } });
 */
export interface Log {
  info(text: string): void;
  /** `error` is the error of a handler, if there is one. */
  warn(text: string, error?: unknown): void;
}

/** Writes to standard error. */
export const STDERR: Log = {
  info: (text) => console.error(text),
  warn: (text, ...error) => console.error(text, ...error),
};

/**
 * Logs an error, with the place where it was thrown unless a handler threw it on purpose. Never
 * throws.
 */
export function warnOf(log: Log, what: string, error: unknown): void {
  try {
    if (deliberate(error)) {
      const { reason, message } = error as PawlError;
      log.warn(`${what} ${reason === message ? reason : `${reason}: ${message}`}`);
    } else {
      log.warn(what, error);
    }
  } catch {
    // The log threw an error itself, or the error has no readable message.
  }
}
