/** Settings of a worker. */

import { capacity, milliseconds } from "./option_limits.js";
import type { AnyPack, PackName, PackTypes } from "./types.js";

/** Settings of a worker. A value out of range is a RangeError. */
export interface WorkerOptions<P extends PackTypes = AnyPack> {
  /**
   * Must differ from the ids of all other connected workers, and stays the same over reconnects.
   * Default: a new id.
   */
  readonly workerId?: string;
  /** Packs to serve, as "id", "id@version" or digests. Default: all packs. */
  readonly packs?: readonly (string | PackName<P>)[];
  /** How many turns it executes at once, 1 to 10 000. Default 1. */
  readonly turns?: number;
  /** How many steps it executes at once, 1 to 10 000. Default 1. */
  readonly steps?: number;
  /** True: permits handlers of names that no pack has yet. Default false. */
  readonly allowUnknown?: boolean;
  /**
   * Bounds each handler in milliseconds; the work then fails with HANDLER_TIMEOUT. Default 900 000;
   * 0: no bound.
   */
  readonly handlerTimeoutMs?: number;
  /** How many milliseconds `stop` waits for handlers. Default 30 000. */
  readonly drainTimeoutMs?: number;
  /**
   * Releases a turn whose handler only waits for steps, so that the worker can execute another one.
   * It applies when the handler waits for a step, and has made no request and received no answer
   * for this many milliseconds. Other work of the handler, for example a model call in parallel
   * with `turn.step`, is not noticed: do not use this setting for such a handler.
   *
   * `turn.signal` is then aborted, and `turn.step` rejects, with a PawlError of kind "suspended";
   * what the handler then returns or throws is ignored. When the steps are answered, a worker
   * executes the handler again from its beginning, at the same attempt, and the same keys return
   * the recorded answers. Default 0: never.
   */
  readonly suspendAfterMs?: number;
  /**
   * Receives each error of a handler or of its answer; the error is logged in any case. Default:
   * none.
   */
  readonly onError?: (error: unknown) => void;
}

/** Checked options, with their defaults. */
export type WorkerSettings = Required<Omit<WorkerOptions, "workerId" | "packs">> & {
  readonly packs: readonly string[];
};

/** Checks options and adds the defaults. Throws a RangeError that names the option out of range. */
export function workerSettings<P extends PackTypes>(options: WorkerOptions<P>): WorkerSettings {
  return {
    packs: options.packs ?? [],
    turns: capacity("turns", options.turns ?? 1),
    steps: capacity("steps", options.steps ?? 1),
    allowUnknown: options.allowUnknown ?? false,
    handlerTimeoutMs: milliseconds("handlerTimeoutMs", options.handlerTimeoutMs ?? 900_000),
    drainTimeoutMs: milliseconds("drainTimeoutMs", options.drainTimeoutMs ?? 30_000),
    suspendAfterMs: milliseconds("suspendAfterMs", options.suspendAfterMs ?? 0),
    onError: options.onError ?? (() => undefined),
  };
}
