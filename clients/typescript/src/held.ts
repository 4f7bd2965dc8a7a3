/** A piece of work that a worker holds. */

import { PawlError } from "./errors.js";
import { RevokeCause } from "./gen/pawl/v1/worker_pb.js";

/** Work with the two things that may end its handler: the loss of the work, and time. */
export abstract class Held {
  readonly #work = new AbortController();
  readonly #handler = new AbortController();

  /** Aborted when the work is the worker's no more. */
  get signal(): AbortSignal {
    return this.#work.signal;
  }

  /** Aborted when the handler is to stop: with the work, or when its time is up. */
  get handlerSignal(): AbortSignal {
    return this.#handler.signal;
  }

  get revoked(): boolean {
    return this.signal.aborted;
  }

  /** Takes the work away and stops its handler. The first reason counts. */
  revoke(why: PawlError): void {
    this.#work.abort(why);
    this.#handler.abort(why);
  }

  /** Executes the handler for as long as it may take (0: no bound) and is wanted. */
  async execute<T>(limitMs: number, handler: () => Promise<T>): Promise<T> {
    const late = () => {
      const text = `the handler did not return within ${limitMs} ms`;
      this.#handler.abort(new PawlError("handler", text, { reason: "HANDLER_TIMEOUT" }));
    };
    const timer = limitMs > 0 ? setTimeout(late, limitMs) : undefined;
    try {
      return await unless(this.handlerSignal, handler());
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Awaits something until a signal is aborted; rejects with the signal's reason then. */
export function unless<T>(signal: AbortSignal, awaited: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) {
      stop();
    }
    signal.addEventListener("abort", stop, { once: true });
    awaited.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

/** The error of work that is the worker's no more. */
export function stale(what: string, cause = RevokeCause.UNSPECIFIED): PawlError {
  const word = RevokeCause[cause] ?? "UNSPECIFIED";
  return new PawlError("state", `${what} is not this worker's any more (${word})`, {
    reason: "TURN_STALE",
    metadata: { cause: word },
  });
}
