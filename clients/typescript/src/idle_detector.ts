/** Detects a turn's handler that only waits for steps. */

import { later, type Timer } from "./timer.js";

/**
 * Calls `idle` when there was no request and no answer for some time while
 * `waits` is true. It may call again after each further change.
 */
export class IdleDetector {
  readonly #afterMs: number;
  readonly #waiting: () => boolean;
  readonly #idle: () => void;
  #busy = 0;
  #timer: Timer | undefined;

  /** `afterMs` 0: never. */
  constructor(afterMs: number, waiting: () => boolean, idle: () => void) {
    this.#afterMs = afterMs;
    this.#waiting = waiting;
    this.#idle = idle;
  }

  /** The client works for the handler; it is not idle meanwhile. */
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
    if (this.#afterMs > 0 && this.#busy === 0 && this.#waiting()) {
      this.#timer = later(this.#afterMs, this.#idle);
    }
  }

  /** Stops counting. */
  end(): void {
    this.#timer?.cancel();
  }
}
