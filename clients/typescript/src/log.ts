/** Where a client says what nobody else would hear of. */

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
