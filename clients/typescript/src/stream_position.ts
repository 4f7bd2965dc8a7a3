/** Where a reader of a stream stands, and the proof that no record was left out. */

import { PawlError } from "./errors.js";
import type { Record as WireRecord } from "./gen/pawl/v1/record_pb.js";

/** What a position needs to know of a record. */
export type SequencedRecord = Pick<WireRecord, "runId" | "seq" | "prevSeq" | "cursor" | "body">;

/**
 * The position of one stream of records, of one run or (runId empty) of all.
 *
 * After each accepted record `afterSeq` (one run) or `cursor` (all runs) is what a
 * reconnect has to ask for. Pure: it makes no calls.
 */
export class StreamPosition {
  readonly #seen = new Map<string, bigint>();

  constructor(
    readonly runId: string,
    public afterSeq = 0n,
    public cursor = "",
  ) {}

  /**
   * Whether the record is new; one that was accepted before is to be skipped. Throws a
   * PawlError of kind "gap" if one before it is missing.
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
      // An ended run has no further record; without this, memory grows for ever.
      this.#seen.delete(record.runId);
    }
    return true;
  }

  /** Takes over how far the server has looked. */
  heartbeat(cursor: string): void {
    if (!this.runId) {
      this.cursor = cursor;
    }
  }

  #missed(record: SequencedRecord, last: bigint | undefined): boolean {
    if (this.#seen.has(record.runId)) {
      return record.prevSeq !== last;
    }
    // The first one of its run: what is before the position was not asked for.
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
