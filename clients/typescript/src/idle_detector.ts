/** Noticing that the handler of a turn does nothing but wait for steps. */

import { later, type Timer } from "./timer.js";

/**
 * Calls `idle` when nothing was asked and nothing was answered for some time while
 * `waits` is true. It may call again after each further change.
 */
export class Idleness {
  readonly #afterMs: number;
  readonly #waits: () => boolean;
  readonly #idle: () => void;
  #busy = 0;
  #timer: Timer | undefined;

  /** `afterMs` 0: never. */
  constructor(afterMs: number, waits: () => boolean, idle: () => void) {
    this.#afterMs = afterMs;
    this.#waits = waits;
    this.#idle = idle;
  }

  /** Something is done for the handler; it is not idle meanwhile. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#busy += 1;
    this.end();
    try {
      return await work();
    } finally {
      this.#busy -= 1;
      this.changed();
    }
  }

  /** Counts from now on, if the handler waits. */
  changed(): void {
    this.end();
    if (this.#afterMs > 0 && this.#busy === 0 && this.#waits()) {
      this.#timer = later(this.#afterMs, this.#idle);
    }
  }

  /** Stops counting. */
  end(): void {
    this.#timer?.cancel();
  }
}
