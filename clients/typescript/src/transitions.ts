/** Reads records of one run or of all runs. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { FollowOptions, StreamReader } from "./follow.js";
import {
  type RecordKind,
  RecordSchema,
  type Record as WireRecord,
} from "./gen/pawl/v1/record_pb.js";
import {
  type RunFilterSchema,
  SnapshotSchema,
  type StreamTransitionsResponse,
  type Snapshot as WireSnapshot,
} from "./gen/pawl/v1/run_pb.js";
import { type Plain, plain } from "./plain_message.js";
import type { StreamPosition } from "./stream_position.js";

/**
 * One record of a run's journal; `record.body` is its content.
 *
 *     if (record.body.case === "transition") {
 *       console.log(record.body.value.fromState, record.body.value.toState);
 *     }
 */
export type Record = Plain<WireRecord> & {
  /** The run as it was at the record; undefined unless requested. */
  readonly snapshot?: Plain<WireSnapshot>;
};

/** Which records to read, and how long to wait for a lost connection. */
export interface TransitionsOptions extends FollowOptions {
  /** Kinds of records. Default: TRANSITION and ENDED. */
  readonly kinds?: readonly RecordKind[];
  /** True (default): waits for further records, until the run ends. */
  readonly follow?: boolean;
  /** True: adds the run as it was at each record. Default false. */
  readonly snapshots?: boolean;
}

/** Which records to read, and where to begin. */
export interface Source {
  readonly namespace: string;
  readonly position: StreamPosition;
  readonly filter?: MessageInitShape<typeof RunFilterSchema>;
  /** True: begins after the newest record. */
  readonly fromNow?: boolean;
  /** Name of the consumer that reads; the sidecar stores its position. */
  readonly consumer?: string;
}

/** Reads the records of a source, each exactly once and in order. */
export class TransitionsReader implements StreamReader<Record> {
  readonly #source: Source;
  readonly #options: TransitionsOptions;

  constructor(source: Source, options: TransitionsOptions) {
    this.#source = source;
    this.#options = options;
  }

  request(): ReturnType<StreamReader<Record>["request"]> {
    const { namespace, position, filter, fromNow = false, consumer } = this.#source;
    return {
      namespace,
      runId: position.runId,
      filter,
      consumer,
      kinds: [...(this.#options.kinds ?? [])],
      afterSeq: position.runId ? position.afterSeq : 0n,
      afterCursor: position.runId ? "" : position.cursor,
      // The first heartbeat of the stream names that position.
      fromNow: fromNow && position.cursor === "",
      follow: this.#options.follow ?? true,
      snapshots: this.#options.snapshots ?? false,
    };
  }

  read({ item, snapshot }: StreamTransitionsResponse): Record | undefined {
    const { position } = this.#source;
    if (item.case === "heartbeat") {
      position.heartbeat(item.value.cursor);
    }
    if (item.case !== "record" || !position.accept(item.value)) {
      return undefined;
    }
    const record: Record = plain(RecordSchema, item.value);
    return snapshot ? { ...record, snapshot: plain(SnapshotSchema, snapshot) } : record;
  }
}
