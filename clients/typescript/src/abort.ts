/** Whether an operation that is under way is still wanted. */

/**
 * The state of an operation that may be aborted. Its `signal` is created when it is first read;
 * reading `reason` costs nothing.
 */
export interface Cancellable {
  /** Why the operation ended; undefined while it has not. */
  readonly reason: unknown;
  /** Aborted when the operation ends. */
  readonly signal: AbortSignal;
}

/**
 * An end that happens at most once. Most operations end without a use of their signal, so the
 * signal is created, with its reason, when it is first read.
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

  /** Ends the operation. The first reason counts; `why` is called when the reason is read. */
  end(why: () => unknown): void {
    if (this.#why) {
      return;
    }
    this.#why = why;
    this.#controller?.abort(this.reason);
    this.#stop?.();
  }

  /** Aborts the signal, so that its readers stop by themselves; `unlessAborted` still waits. */
  ask(why: () => unknown): void {
    if (this.#why) {
      return;
    }
    this.#controller ??= new AbortController();
    this.#controller.abort(why());
  }

  /** Awaits a promise until the abort, and then rejects with its reason. One call at a time. */
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
