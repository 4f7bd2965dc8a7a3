/** Detects that the handler of a turn only waits for steps. */

import { later, type Timer } from "./timer.js";

/**
 * Calls `idle` after a time without requests and answers while `waiting` is true. It may call it
 * again after each further change.
 */
export class IdleDetector {
  readonly #afterMs: number;
  readonly #waiting: () => boolean;
  readonly #idle: () => void;
  #busy = 0;
  #timer: Timer | undefined;

  /** `afterMs` 0: never calls `idle`. */
  constructor(afterMs: number, waiting: () => boolean, idle: () => void) {
    this.#afterMs = afterMs;
    this.#waiting = waiting;
    this.#idle = idle;
  }

  /** Runs work for the handler, which is not idle meanwhile. */
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

  /** Starts the time again, if the handler waits. */
  changed(): void {
    this.end();
    if (this.#afterMs > 0 && this.#busy === 0 && this.#waiting()) {
      this.#timer = later(this.#afterMs, this.#idle);
    }
  }

  /** Stops the time. */
  end(): void {
    this.#timer?.cancel();
  }
}
