/** Whether an operation in flight is still wanted. */

/** The state of an operation that may be aborted: `signal` is made on demand, `reason` is free to read. */
export interface Cancellable {
  /** Why it ended; undefined: it did not. */
  readonly reason: unknown;
  /** Aborted when it ends. */
  readonly signal: AbortSignal;
}

/**
 * An end that comes once or never. Most operations end well without a use of their signal,
 * so that it is made, with the reason, on demand.
 */
export class AbortState implements Cancellable {
  #why: (() => unknown) | undefined;
  #reason: unknown;
  #controller: AbortController | undefined;
  #stop: (() => void) | undefined;

  get ended(): boolean {
    return this.#why !== undefined;
  }

  get reason(): unknown {
    this.#reason ??= this.#why?.();
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#why) {
        this.#controller.abort(this.reason);
      }
    }
    return this.#controller.signal;
  }

  /** Ends it. The first reason counts; `why` is called when the reason is read. */
  end(why: () => unknown): void {
    if (this.#why) {
      return;
    }
    this.#why = why;
    this.#controller?.abort(this.reason);
    this.#stop?.();
  }

  /** Aborts the signal, so that its readers end by themselves; `unless` goes on to wait. */
  ask(why: () => unknown): void {
    if (this.#why) {
      return;
    }
    this.#controller ??= new AbortController();
    this.#controller.abort(why());
  }

  /** Awaits a promise until the abort; rejects with its reason then. One at a time. */
  unlessAborted<T>(awaited: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#stop = () => reject(this.reason);
      if (this.#why) {
        this.#stop();
      }
      awaited
        .finally(() => {
          this.#stop = undefined;
        })
        .then(resolve, reject);
    });
  }
}
