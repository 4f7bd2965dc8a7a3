/** Reads a stream over as many connections as it takes. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import { repeatable } from "./error_advice.js";
import { errorOf, PawlError } from "./errors.js";
import type {
  RunService,
  StreamTransitionsRequestSchema,
  StreamTransitionsResponse,
} from "./gen/pawl/v1/run_pb.js";
import { milliseconds } from "./option_limits.js";
import { aborted, Backoff, type CallOptions, sleep } from "./retry.js";
import { later } from "./timer.js";

/** How long to wait for a lost connection. `timeoutMs` bounds the whole stream. */
export interface FollowOptions extends CallOptions {
  /** Longest time without progress in milliseconds. Default 60 000. */
  readonly reconnectForMs?: number;
}

/** Whether a stream is awaited without a limit. */
interface Awaiting {
  readonly awaited?: () => boolean;
}

/** Reads the items of a stream and keeps its position. */
export interface StreamReader<T> {
  /** Returns the request for all items that were not read yet. */
  request(): MessageInitShape<typeof StreamTransitionsRequestSchema>;
  /**
   * Returns the content of an item; undefined: it was read before. Throws a PawlError of kind
   * "gap".
   */
  read(item: StreamTransitionsResponse): T | undefined;
}

const RECONNECT_FOR_MS = 60_000;

/** Decides whether and when a lost stream is opened again. */
class Reconnects {
  readonly #backoff = new Backoff();
  readonly #retryWindowMs: () => number;
  #lostAt: number | undefined;
  #gaps = 0;

  constructor(retryWindowMs: () => number) {
    this.#retryWindowMs = retryWindowMs;
  }

  progress(): void {
    this.#backoff.reset();
    this.#lostAt = undefined;
    this.#gaps = 0;
  }

  /** Returns the milliseconds to wait before the next connection; throws an error that is final. */
  pause(error: PawlError): number {
    if (error.kind === "gap" && this.#gaps === 0) {
      // The stream is read again from the last valid item once; a second gap is the server's error.
      this.#gaps = 1;
      return 0;
    }
    const now = performance.now();
    this.#lostAt ??= now;
    if (!repeatable(error) || now - this.#lostAt >= this.#retryWindowMs()) {
      throw error;
    }
    return Math.max(this.#backoff.next(), error.retryAfterMs ?? 0);
  }
}

/** Iterates over the items of a stream, each once, until the stream ends by itself. */
export async function* follow<T>(
  runs: Client<typeof RunService>,
  reader: StreamReader<T>,
  options: FollowOptions & Awaiting,
): AsyncGenerator<T, void, undefined> {
  const { reconnectForMs = RECONNECT_FOR_MS, awaited = () => false } = options;
  const reconnects = new Reconnects(() => (awaited() ? Number.POSITIVE_INFINITY : reconnectForMs));
  const end = endOf(options);
  try {
    for (;;) {
      try {
        yield* once(runs, reader, reconnects, end.signal);
        return;
      } catch (thrown) {
        if (end.signal.aborted) {
          throw aborted(end.signal);
        }
        await sleep(reconnects.pause(errorOf(thrown)), end.signal);
      }
    }
  } finally {
    end.clear();
  }
}

/** Iterates over the items of one connection, which is closed when the reader stops. */
async function* once<T>(
  runs: Client<typeof RunService>,
  reader: StreamReader<T>,
  reconnects: Reconnects,
  signal: AbortSignal,
) {
  const connection = new AbortController();
  const stop = () => connection.abort(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  const options = { signal: connection.signal };
  try {
    for await (const item of runs.streamTransitions(reader.request(), options)) {
      const read = reader.read(item);
      if (read !== undefined || item.item.case === "heartbeat") {
        reconnects.progress();
      }
      if (read !== undefined) {
        yield read;
      }
    }
  } finally {
    signal.removeEventListener("abort", stop);
    connection.abort();
  }
}

/** Combines the caller's signal and the time limit. */
function endOf({ signal, timeoutMs }: CallOptions): { signal: AbortSignal; clear: () => void } {
  if (timeoutMs !== undefined) {
    milliseconds("timeoutMs", timeoutMs, 1);
  }
  const end = new AbortController();
  const stop = () => end.abort(signal?.reason);
  if (signal?.aborted) {
    stop();
  }
  signal?.addEventListener("abort", stop, { once: true });
  const expired = () => end.abort(deadline(timeoutMs));
  const timer = timeoutMs === undefined ? undefined : later(timeoutMs, expired);
  return {
    signal: end.signal,
    clear: () => {
      timer?.cancel();
      signal?.removeEventListener("abort", stop);
    },
  };
}

function deadline(ms: number | undefined): PawlError {
  return new PawlError(
    "deadline",
    `the stream did not end within ${ms} ms; give a longer timeoutMs`,
    {
      code: "DEADLINE_EXCEEDED",
    },
  );
}
