/** A run that is followed in the background. */

import type { Record as PawlRecord } from "pawl-client";
import { canon } from "./canon.js";

const PATIENCE_MS = 50_000;

/** Reads records as they come. */
export class Tail {
  readonly #records: unknown[] = [];
  #ended = false;
  #error: unknown;
  #news: () => void = () => undefined;

  constructor(records: AsyncIterable<PawlRecord>) {
    void this.#follow(records);
  }

  async #follow(records: AsyncIterable<PawlRecord>): Promise<void> {
    try {
      for await (const record of records) {
        this.#records.push(canon(record));
        this.#news();
      }
    } catch (error) {
      this.#error = error;
    }
    this.#ended = true;
    this.#news();
  }

  /** Until so many records were read, or all if none is said. */
  async wait(count: number): Promise<unknown> {
    const end = performance.now() + PATIENCE_MS;
    while (!this.#ended && (count === 0 || this.#records.length < count)) {
      if (performance.now() > end) {
        throw new Error(`${this.#records.length} records so far`);
      }
      await this.#changed(end - performance.now());
    }
    if (this.#error !== undefined) {
      throw this.#error;
    }
    return { records: [...this.#records], ended: this.#ended };
  }

  #changed(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, limitMs);
      this.#news = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
