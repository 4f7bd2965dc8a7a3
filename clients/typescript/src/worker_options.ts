/** Settings of a worker. */

/** How a worker works. */
export interface WorkerOptions {
  /** The same over reconnects, different from all others that are connected. Default: fresh. */
  readonly workerId?: string;
  /** "id", "id@version" or digests. Default: all. */
  readonly packs?: readonly string[];
  /** Most turns at once. Default 1. */
  readonly turns?: number;
  /** Most steps at once. Default 1. */
  readonly steps?: number;
  /** Takes names that no pack has yet. Default false. */
  readonly allowUnknown?: boolean;
  /** Bounds each handler in milliseconds; past it: HANDLER_TIMEOUT. Default 900 000; 0: none. */
  readonly handlerTimeoutMs?: number;
  /** How long `stop` lets handlers finish, in milliseconds. Default 30 000. */
  readonly drainTimeoutMs?: number;
  /** Is told what went wrong in a handler or with its answer. */
  readonly onError?: (error: unknown) => void;
}

/** A number of things at once, or a RangeError that names the setting. */
export function capacity(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > 10_000) {
    throw new RangeError(`${name}: 1 to 10000, not ${value}`);
  }
  return value;
}
