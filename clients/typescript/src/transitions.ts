/** Reading records over as many connections as it takes. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Client, CallOptions as RpcOptions } from "@connectrpc/connect";
import { errorOf, PawlError } from "./errors.js";
import {
  type RecordKind,
  RecordSchema,
  type Record as WireRecord,
} from "./gen/pawl/v1/record_pb.js";
import {
  type RunFilterSchema,
  type RunService,
  SnapshotSchema,
  type StreamTransitionsRequestSchema,
  type StreamTransitionsResponse,
  type Snapshot as WireSnapshot,
} from "./gen/pawl/v1/run_pb.js";
import { type Plain, plain } from "./plain.js";
import type { Position } from "./position.js";
import { aborted, Backoff, type CallOptions, sleep } from "./retry.js";

/** One record of a run's journal. What happened is `record.body`. */
export type Record = Plain<WireRecord> & {
  /** The run as of the record; undefined unless asked for. */
  readonly snapshot?: Plain<WireSnapshot>;
};

/** What to read, and how long to bear with a lost connection. */
export interface TransitionsOptions extends CallOptions {
  /** Kinds of records. Default: TRANSITION and ENDED. */
  readonly kinds?: readonly RecordKind[];
  /** True (default): goes on with what is to come, until the run ends. */
  readonly follow?: boolean;
  /** Adds the run as of each record. Default false. */
  readonly snapshots?: boolean;
  /** Longest time without any progress in milliseconds. Default 60 000. */
  readonly reconnectForMs?: number;
}

/** Which records, and from where. */
export interface Source {
  readonly namespace: string;
  readonly position: Position;
  readonly filter?: MessageInitShape<typeof RunFilterSchema>;
}

const RECONNECT_FOR_MS = 60_000;

/** Decides what to do with each item and each error of the connections. */
class Tail {
  readonly #backoff = new Backoff();
  #lostAt: number | undefined;
  #gaps = 0;

  constructor(
    readonly source: Source,
    readonly options: TransitionsOptions,
  ) {}

  /** The request for all that was not yet read. */
  request(): MessageInitShape<typeof StreamTransitionsRequestSchema> {
    const { namespace, position, filter } = this.source;
    return {
      namespace,
      runId: position.runId,
      filter,
      kinds: [...(this.options.kinds ?? [])],
      afterSeq: position.runId ? position.afterSeq : 0n,
      afterCursor: position.runId ? "" : position.cursor,
      follow: this.options.follow ?? true,
      snapshots: this.options.snapshots ?? false,
    };
  }

  /** The record of an item; undefined if it holds none that is new. */
  read(item: StreamTransitionsResponse): Record | undefined {
    const { position } = this.source;
    if (item.item.case === "heartbeat") {
      position.heartbeat(item.item.value.cursor);
      this.#progress();
    }
    if (item.item.case !== "record" || !position.accept(item.item.value)) {
      return undefined;
    }
    this.#progress();
    const record: Record = plain(RecordSchema, item.item.value);
    return item.snapshot ? { ...record, snapshot: plain(SnapshotSchema, item.snapshot) } : record;
  }

  /** Milliseconds to wait before the next connection; throws an error that is final. */
  pause(error: PawlError): number {
    if (error.kind === "gap" && this.#gaps === 0) {
      // Read again from the last good record, once; then it is the journal's.
      this.#gaps = 1;
      return 0;
    }
    const now = performance.now();
    this.#lostAt ??= now;
    const patience = this.options.reconnectForMs ?? RECONNECT_FOR_MS;
    if (error.kind !== "unavailable" || now - this.#lostAt >= patience) {
      throw error;
    }
    return Math.max(this.#backoff.next(), error.retryAfterMs ?? 0);
  }

  #progress(): void {
    this.#backoff.reset();
    this.#lostAt = undefined;
    this.#gaps = 0;
  }
}

/** The records of a source, each exactly once and in order. */
export async function* transitions(
  runs: Client<typeof RunService>,
  source: Source,
  options: TransitionsOptions = {},
): AsyncGenerator<Record, void, undefined> {
  const tail = new Tail(source, options);
  const end = endOf(options);
  try {
    for (;;) {
      try {
        yield* once(runs, tail, end.signal);
        return;
      } catch (thrown) {
        const error = end.signal.aborted ? aborted(end.signal) : errorOf(thrown);
        await sleep(tail.pause(error), end.signal);
      }
    }
  } finally {
    end.clear();
  }
}

/** The records that one connection gives. It is closed when the reader leaves. */
async function* once(runs: Client<typeof RunService>, tail: Tail, signal: AbortSignal) {
  const connection = new AbortController();
  const stop = () => connection.abort(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  const options: RpcOptions = { signal: connection.signal };
  try {
    for await (const item of runs.streamTransitions(tail.request(), options)) {
      const record = tail.read(item);
      if (record !== undefined) {
        yield record;
      }
    }
  } finally {
    signal.removeEventListener("abort", stop);
    connection.abort();
  }
}

/** One signal of the caller's signal and the time limit. */
function endOf(options: CallOptions): { signal: AbortSignal; clear: () => void } {
  const end = new AbortController();
  const stop = () => end.abort(options.signal?.reason);
  if (options.signal?.aborted) {
    stop();
  }
  options.signal?.addEventListener("abort", stop, { once: true });
  const timer =
    options.timeoutMs === undefined
      ? undefined
      : setTimeout(() => end.abort(deadline(options.timeoutMs)), options.timeoutMs);
  return {
    signal: end.signal,
    clear: () => {
      clearTimeout(timer);
      options.signal?.removeEventListener("abort", stop);
    },
  };
}

function deadline(ms: number | undefined): PawlError {
  return new PawlError("deadline", `the stream did not end within ${ms} ms`, {
    code: "DEADLINE_EXCEEDED",
  });
}
