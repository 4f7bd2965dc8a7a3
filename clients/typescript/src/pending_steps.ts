/** Answers to the steps of a turn, and the promises that wait for them. */

import { setMaxListeners } from "node:events";
import { PawlError } from "./errors.js";
import { later } from "./timer.js";
import type { Step } from "./turn.js";

/** The received answers, and the waiting callers. */
export class PendingSteps {
  readonly #answers = new Map<number, Step>();
  readonly #waiting = new Map<number, Set<(step: Step) => void>>();

  /** How many steps have waiting callers. */
  get count(): number {
    return this.#waiting.size;
  }

  /** Takes an answer, which may arrive before a caller waits for it. */
  take(step: Step): void {
    this.#answers.set(step.step, step);
    for (const resolve of this.#waiting.get(step.step) ?? []) {
      resolve(step);
    }
  }

  /** Waits for the answer of a step, at most `timeoutMs` milliseconds, and until the signal. */
  answer(step: Step, timeoutMs: number | undefined, signal: AbortSignal): Promise<Step> {
    const known = this.#answers.get(step.step);
    if (known) {
      return Promise.resolve(known);
    }
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const done = () => {
        timer?.cancel();
        this.#forget(step.step, answered);
        signal.removeEventListener("abort", stop);
      };
      const stop = () => {
        done();
        reject(signal.reason);
      };
      const expired = () => {
        done();
        reject(deadlineExceeded(step, timeoutMs));
      };
      const timer = timeoutMs === undefined ? undefined : later(timeoutMs, expired);
      setMaxListeners(0, signal); // Each pending step has a listener; Node warns from 11 on.
      signal.addEventListener("abort", stop, { once: true });
      const answered = (given: Step) => {
        done();
        resolve(given);
      };
      this.#waiting.set(step.step, (this.#waiting.get(step.step) ?? new Set()).add(answered));
    });
  }

  #forget(step: number, answered: (step: Step) => void): void {
    const others = this.#waiting.get(step);
    others?.delete(answered);
    if (others?.size === 0) {
      this.#waiting.delete(step);
    }
  }
}

function deadlineExceeded({ step, tool }: Step, timeoutMs: number | undefined): PawlError {
  return new PawlError(
    "deadline",
    `step ${step} (${tool}): no answer within ${timeoutMs} ms; give a longer timeoutMs`,
  );
}
