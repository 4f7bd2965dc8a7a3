/** A piece of work that a worker holds. */

import { AbortState, type Cancellable } from "./abort.js";
import { PawlError } from "./errors.js";
import { RevokeCause } from "./gen/pawl/v1/worker_pb.js";
import { later } from "./timer.js";

/** Work with the two things that may end its handler: the loss of the work, and time. */
export abstract class LeasedWork implements Cancellable {
  readonly #work = new AbortState();
  /** Ends when the handler is to stop: with the work, or when its time is up. */
  readonly handling = new AbortState();

  /** Aborted when the work is the worker's no more. */
  get signal(): AbortSignal {
    return this.#work.signal;
  }

  /** Why the work is the worker's no more; undefined: it still is. */
  get reason(): unknown {
    return this.#work.reason;
  }

  get revoked(): boolean {
    return this.#work.ended;
  }

  /** As errors name it. */
  abstract get title(): string;

  /** Takes the work away and stops its handler. The first reason counts. */
  revoke(why: () => unknown): void {
    this.#work.end(why);
    this.handling.end(() => this.#work.reason);
  }

  /** It is not this worker's any more, or over. */
  lose(cause = RevokeCause.UNSPECIFIED): void {
    this.revoke(() => stale(this.title, cause));
  }

  /** The worker lost it without a cause: its stream was lost, or its lease. */
  get unkept(): boolean {
    const { reason } = this;
    return PawlError.is(reason, "TURN_STALE") && reason.metadata.cause === UNSPECIFIED;
  }

  /** Executes the handler for as long as it may take (0: no bound) and is wanted. */
  async execute<T>(limitMs: number, handler: () => Promise<T>): Promise<T> {
    const expired = () => this.handling.end(() => deadlineExceeded(limitMs));
    const timer = limitMs > 0 ? later(limitMs, expired) : undefined;
    try {
      return await this.handling.unlessAborted(handler());
    } finally {
      timer?.cancel();
    }
  }
}

/** Awaits a promise until a signal is aborted; rejects with the signal's reason then. */
export function settledBefore<T>(signal: AbortSignal, awaited: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) {
      stop();
    }
    signal.addEventListener("abort", stop, { once: true });
    awaited.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

const UNSPECIFIED = "UNSPECIFIED";

function deadlineExceeded(limitMs: number): PawlError {
  const text = `the handler did not return within ${limitMs} ms`;
  return new PawlError("handler", text, { reason: "HANDLER_TIMEOUT" });
}

/** The error of work that is the worker's no more. */
function stale(what: string, cause: RevokeCause): PawlError {
  const word = RevokeCause[cause] ?? UNSPECIFIED;
  return new PawlError("state", `${what}: this worker has lost its lease (${word})`, {
    reason: "TURN_STALE",
    metadata: { cause: word },
  });
}
