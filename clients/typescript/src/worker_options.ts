/** Settings of a worker. */

import { capacity, milliseconds } from "./option_limits.js";
import type { AnyPack, PackName, PackTypes } from "./types.js";

/** How a worker works. */
export interface WorkerOptions<P extends PackTypes = AnyPack> {
  /** The same over reconnects, different from all others that are connected. Default: fresh. */
  readonly workerId?: string;
  /** "id", "id@version" or digests. Default: all. */
  readonly packs?: readonly (string | PackName<P>)[];
  /** Most turns at once, 1 to 10 000. Default 1. */
  readonly turns?: number;
  /** Most steps at once, 1 to 10 000. Default 1. */
  readonly steps?: number;
  /** Takes names that no pack has yet. Default false. */
  readonly allowUnknown?: boolean;
  /** Bounds each handler in milliseconds; past it: HANDLER_TIMEOUT. Default 900 000; 0: none. */
  readonly handlerTimeoutMs?: number;
  /** How long `stop` lets handlers finish, in milliseconds. Default 30 000. */
  readonly drainTimeoutMs?: number;
  /**
   * Gives a turn back that only waits for steps, so that its place is free for another:
   * when its handler waits for a step, and for this many milliseconds has asked for
   * nothing and got no answer. What it does besides, such as a call of a model beside
   * `turn.step`, is not seen: leave this off for such handlers.
   *
   * The handler is ended: `turn.signal` is aborted, and `turn.step` rejects, with a
   * PawlError of kind "suspended". What it then returns or throws counts for nothing. Once
   * the steps are answered the turn is handed out again, at the same attempt, perhaps to
   * another worker; its handler begins anew and gets the recorded answers by their keys.
   * Default 0: never.
   */
  readonly suspendAfterMs?: number;
  /** Is told what went wrong in a handler or with its answer; it is logged in any case. */
  readonly onError?: (error: unknown) => void;
}

/** Options that were checked, with their defaults. */
export type WorkerSettings = Required<Omit<WorkerOptions, "workerId" | "packs">> & {
  readonly packs: readonly string[];
};

/** Checks options. Throws a RangeError that names the one that makes no sense. */
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
