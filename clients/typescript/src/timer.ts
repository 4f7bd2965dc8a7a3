/**
 * Waiting. A timer of Node that is to wait longer than 2^31-1 ms (24.8 days) ends at once, so
 * waits of any length are made here, one slice after the other, and nowhere else.
 */

/** What a timer of the platform takes, in milliseconds. */
export const MAX_SLICE_MS = 2 ** 31 - 1;

/** A callback that runs later, unless it is cancelled. */
export interface Timer {
  cancel(): void;
}

/** How a slice of a wait is made; tests have a clock of their own. */
export interface Ticks {
  now(): number;
  wait(ms: number, act: () => void): NodeJS.Timeout | number;
  forget(slice: NodeJS.Timeout | number): void;
}

const TICKS: Ticks = {
  now: () => performance.now(),
  wait: (ms, act) => setTimeout(act, ms),
  forget: (slice) => clearTimeout(slice),
};

/**
 * Calls `act` once `ms` milliseconds have passed, at once where that is 0 or less; Infinity:
 * never. `idle`: the process may end meanwhile.
 */
export function later(
  ms: number,
  act: () => void,
  { idle = false, ticks = TICKS }: { readonly idle?: boolean; readonly ticks?: Ticks } = {},
): Timer {
  const due = ticks.now() + ms;
  let slice: NodeJS.Timeout | number | undefined;
  const next = (left: number) => {
    slice = ticks.wait(Math.min(Math.max(left, 0), MAX_SLICE_MS), () => {
      // A slice that is not cut short is the last one, also where the clock was set meanwhile.
      if (left <= MAX_SLICE_MS) {
        act();
      } else {
        next(due - ticks.now());
      }
    });
    if (idle && typeof slice === "object") {
      slice.unref();
    }
  };
  next(ms);
  return { cancel: () => slice !== undefined && ticks.forget(slice) };
}

/** As `later`, again and again. */
export function every(ms: number, act: () => void, options: { readonly idle?: boolean }): Timer {
  let timer: Timer;
  const retry = () => {
    timer = later(ms, retry, options);
    act();
  };
  timer = later(ms, retry, options);
  return { cancel: () => timer.cancel() };
}

/** A signal that is aborted once `ms` milliseconds have passed, unless it is cancelled before. */
export function deadlineAfter(ms: number): Timer & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const expired = () => controller.abort(new DOMException("the time is up", "TimeoutError"));
  const { cancel } = later(ms, expired, { idle: true });
  return { signal: controller.signal, cancel };
}
