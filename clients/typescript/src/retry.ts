/** Repeats a call, as the same request with the same id, until it is answered. */

import type { CallOptions as RpcOptions } from "@connectrpc/connect";
import { repeatable } from "./error_advice.js";
import { errorOf, PawlError } from "./errors.js";
import { milliseconds } from "./option_limits.js";
import { later } from "./timer.js";

/** Options of every method. */
export interface CallOptions {
  /** Its abort ends the call with a PawlError of kind "cancelled". */
  readonly signal?: AbortSignal;
  /** Bounds the call in milliseconds, repetitions included; at least 1. Default: the client's. */
  readonly timeoutMs?: number;
}

/** How long calls are repeated. */
export interface RetryWindow {
  /** Bounds each call in milliseconds, repetitions included. */
  readonly timeoutMs: number;
  /**
   * How many milliseconds a call is repeated while the sidecar cannot be reached or asks to wait.
   */
  readonly retryForMs: number;
  /** True if a function returns the token, so that a repeated call can have a new one. */
  readonly renewsToken: boolean;
  /** Is called once for a call that was repeated for about 2 seconds, with its last error. */
  readonly waiting?: (error: PawlError) => void;
}

/** Random bytes for many ids. One request for 4096 bytes is cheaper than one for each id. */
const random = new Uint8Array(4096);
let used = random.length;
const ID_BYTES = 16;
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Returns a new idempotency id. Create it once per intent and keep it over repetitions. */
export function newId(): string {
  if (used === random.length) {
    crypto.getRandomValues(random);
    used = 0;
  }
  let id = "";
  for (const end = used + ID_BYTES; used < end; used += 1) {
    id += HEX[random[used] as number];
  }
  return id;
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;
/** After how many milliseconds of repetitions `waiting` is called. */
const WAITING_MS = 2000;

/** Growing pauses in milliseconds, each between half of its bound and its bound. */
export class Backoff {
  #bound = FIRST_PAUSE_MS;

  /** Returns the next pause. */
  next(): number {
    const pause = this.#bound * (0.5 + Math.random() / 2);
    this.#bound = Math.min(this.#bound * 2, LONGEST_PAUSE_MS);
    return pause;
  }

  /** Starts again at the shortest pause, after a success. */
  reset(): void {
    this.#bound = FIRST_PAUSE_MS;
  }
}

/** Waits for `ms` milliseconds. Rejects with a PawlError when the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      timer.cancel();
      reject(aborted(signal));
    };
    const timer = later(ms, () => {
      signal?.removeEventListener("abort", stop);
      resolve();
    });
    if (signal?.aborted) {
      stop();
    } else {
      signal?.addEventListener("abort", stop, { once: true });
    }
  });
}

/** Returns the error of a call with an aborted signal. */
export function aborted(signal?: { readonly reason: unknown }): PawlError {
  if (PawlError.is(signal?.reason)) {
    return signal.reason;
  }
  return new PawlError("cancelled", "the call was cancelled", { cause: signal?.reason });
}

/** Makes a call, and repeats it with the same request while a repetition may succeed. */
export async function attempt<T>(
  make: (options: RpcOptions) => Promise<T>,
  retryWindow: RetryWindow,
  options: CallOptions = {},
): Promise<T> {
  const { signal } = options;
  const timeoutMs = milliseconds("timeoutMs", options.timeoutMs ?? retryWindow.timeoutMs, 1);
  const start = performance.now();
  const backoff = new Backoff();
  let { waiting } = retryWindow;
  for (;;) {
    if (signal?.aborted) {
      throw aborted(signal);
    }
    // The header grpc-timeout has whole milliseconds.
    const left = Math.max(1, Math.ceil(timeoutMs - (performance.now() - start)));
    try {
      return await make({ signal, timeoutMs: left });
    } catch (thrown) {
      if (signal?.aborted) {
        throw aborted(signal);
      }
      const error = errorOf(thrown);
      const pause = Math.max(backoff.next(), error.retryAfterMs ?? 0);
      const passed = performance.now() - start + pause;
      const retry = repeatable(error, retryWindow.renewsToken);
      if (!retry || passed > Math.min(timeoutMs, retryWindow.retryForMs)) {
        throw error;
      }
      if (passed >= WAITING_MS) {
        waiting?.(error);
        waiting = undefined;
      }
      await sleep(pause, signal);
    }
  }
}
