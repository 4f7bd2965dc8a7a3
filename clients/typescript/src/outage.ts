/** When a worker says that it cannot reach its sidecar: at once, then ever less often. */

/** Milliseconds between two lines. */
const FIRST_MS = 10_000;
const LONGEST_MS = 300_000;

/** The time since a connection was lost, or was first tried. `clock` is in milliseconds. */
export class Outage {
  readonly #clock: () => number;
  #since: number | undefined;
  #next = 0;
  #pause = FIRST_MS;

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  /** There is a connection. */
  over(): void {
    this.#since = undefined;
    this.#pause = FIRST_MS;
  }

  /** One more attempt failed. For how long there has been none, if that is to be said now. */
  missed(): number | undefined {
    const now = this.#clock();
    if (this.#since === undefined) {
      this.#since = now;
      this.#next = now;
    }
    if (now < this.#next) {
      return undefined;
    }
    this.#next = now + this.#pause;
    this.#pause = Math.min(this.#pause * 2, LONGEST_MS);
    return now - this.#since;
  }
}
