/** Work that a worker holds. */

import { AbortState, type Cancellable } from "./abort.js";
import { PawlError } from "./errors.js";
import { RevokeCause } from "./gen/pawl/v1/worker_pb.js";
import { later } from "./timer.js";

/** Work whose handler two things may end: the loss of the lease, and the time limit. */
export abstract class LeasedWork implements Cancellable {
  readonly #work = new AbortState();
  /** Ends when the handler must stop: the work is lost, or its time is over. */
  readonly handling = new AbortState();

  /** Aborted when the worker has lost the work. */
  get signal(): AbortSignal {
    return this.#work.signal;
  }

  /** Why the worker has lost the work. Undefined means that it still holds it. */
  get reason(): unknown {
    return this.#work.reason;
  }

  get revoked(): boolean {
    return this.#work.ended;
  }

  /** Name of the work in errors. */
  abstract get title(): string;

  /** Ends the work and stops its handler. The first reason counts. */
  revoke(why: () => unknown): void {
    this.#work.end(why);
    this.handling.end(() => this.#work.reason);
  }

  /** The worker has lost the work, or the work is over. */
  lose(cause = RevokeCause.UNSPECIFIED): void {
    this.revoke(() => stale(this.title, cause));
  }

  /** True means that the worker lost the work without a cause, with its stream or its lease. */
  get unkept(): boolean {
    const { reason } = this;
    return PawlError.is(reason, "TURN_STALE") && reason.metadata.cause === UNSPECIFIED;
  }

  /** Executes the handler within its time limit (0: none) and while the work is held. */
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

/** Awaits a promise until a signal is aborted, and then rejects with the signal's reason. */
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

/** Returns the error of work whose lease the worker has lost. */
function stale(what: string, cause: RevokeCause): PawlError {
  const word = RevokeCause[cause] ?? UNSPECIFIED;
  return new PawlError("state", `${what}: this worker has lost its lease (${word})`, {
    reason: "TURN_STALE",
    metadata: { cause: word },
  });
}
