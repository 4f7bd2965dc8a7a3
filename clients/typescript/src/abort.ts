/** Whether something that is under way is still wanted. */

/** Who works for something that may end: `signal` costs something, `reason` does not. */
export interface Wanted {
  /** Why it ended; undefined: it did not. */
  readonly reason: unknown;
  /** Aborted when it ends. */
  readonly signal: AbortSignal;
}

/**
 * An end that comes once or never. Most things under way end well and nobody asks for
 * their signal, so that it is made, with the reason, for those who do.
 */
export class Ending implements Wanted {
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

  /** Ends it. The first reason counts; `why` is called if somebody wants to know it. */
  end(why: () => unknown): void {
    if (this.#why) {
      return;
    }
    this.#why = why;
    this.#controller?.abort(this.reason);
    this.#stop?.();
  }

  /** Asks those who look at the signal to end by themselves; `unless` goes on to wait. */
  ask(why: () => unknown): void {
    if (this.#why) {
      return;
    }
    this.#controller ??= new AbortController();
    this.#controller.abort(why());
  }

  /** Awaits something until the end; rejects with its reason then. One at a time. */
  unless<T>(awaited: Promise<T>): Promise<T> {
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
