/** The position of a reader in a stream, which detects missing records. */

import { PawlError } from "./errors.js";
import type { Record as WireRecord } from "./gen/pawl/v1/record_pb.js";

/** The fields of a record that a position needs. */
export type SequencedRecord = Pick<WireRecord, "runId" | "seq" | "prevSeq" | "cursor" | "body">;

/**
 * The position of one stream of records, of one run or (runId empty) of all.
 *
 * A reconnect continues after `afterSeq` (one run) or `cursor` (all runs) of the last accepted
 * record. It makes no calls.
 */
export class StreamPosition {
  readonly #seen = new Map<string, bigint>();

  constructor(
    readonly runId: string,
    public afterSeq = 0n,
    public cursor = "",
  ) {}

  /**
   * Whether the record is new; skip one that was accepted before. Throws a PawlError of kind "gap"
   * if an earlier record is missing.
   */
  accept(record: SequencedRecord): boolean {
    const last = this.#seen.get(record.runId) ?? (this.runId ? this.afterSeq : undefined);
    if (last !== undefined && record.seq <= last) {
      return false;
    }
    if (this.#missed(record, last)) {
      throw gap(record, last ?? 0n);
    }
    this.#seen.set(record.runId, record.seq);
    this.cursor = record.cursor;
    if (this.runId) {
      this.afterSeq = record.seq;
    } else if (record.body.case === "ended") {
      // An ended run has no further record; keeping it would let memory grow without a bound.
      this.#seen.delete(record.runId);
    }
    return true;
  }

  /** Takes the position up to which the server has read. */
  heartbeat(cursor: string): void {
    if (!this.runId) {
      this.cursor = cursor;
    }
  }

  #missed(record: SequencedRecord, last: bigint | undefined): boolean {
    if (this.#seen.has(record.runId)) {
      return record.prevSeq !== last;
    }
    // The first record of its run: records before the position were not requested.
    return last !== undefined && record.prevSeq > last;
  }
}

function gap(record: SequencedRecord, last: bigint): PawlError {
  return new PawlError(
    "gap",
    `run ${record.runId}: record ${record.seq} follows ${record.prevSeq}, ` +
      `but the last one read was ${last}`,
    { reason: "STREAM_GAP" },
  );
}
