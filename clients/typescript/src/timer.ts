/**
 * Timers of any length. A timer of Node for more than 2^31-1 ms (24.8 days) fires at once, so a
 * long wait consists of several shorter ones.
 */

/** Longest time of a timer of the platform, in milliseconds. */
export const MAX_SLICE_MS = 2 ** 31 - 1;

/** A callback that runs later, unless it is cancelled. */
export interface Timer {
  cancel(): void;
}

/** Makes the timer of one slice of a wait; tests have their own clock. */
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
 * Calls `act` after `ms` milliseconds. For 0 or less it calls it at once, for Infinity never. With
 * `idle`, the timer does not keep the process alive.
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
      // A rest of at most one slice is the last one, even if the clock was changed meanwhile.
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

/** Calls `act` every `ms` milliseconds. Otherwise it does the same as `later`. */
export function every(ms: number, act: () => void, options: { readonly idle?: boolean }): Timer {
  let timer: Timer;
  const retry = () => {
    timer = later(ms, retry, options);
    act();
  };
  timer = later(ms, retry, options);
  return { cancel: () => timer.cancel() };
}

/** Returns a signal that is aborted after `ms` milliseconds, unless it is cancelled before. */
export function deadlineAfter(ms: number): Timer & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const expired = () => controller.abort(new DOMException("the time is up", "TimeoutError"));
  const { cancel } = later(ms, expired, { idle: true });
  return { signal: controller.signal, cancel };
}
