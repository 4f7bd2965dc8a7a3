/**
 * Decides when a worker logs that it cannot reach its sidecar: at once for each new cause, then
 * ever less often.
 */

/** Milliseconds between the first two messages. */
const FIRST_MS = 10_000;
const LONGEST_MS = 300_000;

/**
 * The time since the loss of a connection, or since the first attempt. `clock` is in milliseconds.
 */
export class ReconnectLog {
  readonly #clock: () => number;
  #since: number | undefined;
  #next = 0;
  #pause = FIRST_MS;
  readonly #causes = new Set<string>();

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  /** A connection exists again. */
  over(): void {
    this.#since = undefined;
    this.#pause = FIRST_MS;
    this.#causes.clear();
  }

  /**
   * One more attempt failed, with a cause. Returns the milliseconds without a connection if a
   * message is due, else undefined.
   */
  missed(cause = ""): number | undefined {
    const now = this.#clock();
    if (this.#since === undefined) {
      this.#since = now;
      this.#next = now;
    }
    const known = this.#causes.has(cause);
    this.#causes.add(cause);
    if (now < this.#next) {
      return known ? undefined : now - this.#since;
    }
    this.#next = now + this.#pause;
    this.#pause = Math.min(this.#pause * 2, LONGEST_MS);
    return now - this.#since;
  }
}
