/** Reading the output of turns that workers have under way. */

import { PawlError } from "./errors.js";
import type { FollowOptions, StreamReader } from "./follow.js";
import { RecordKind } from "./gen/pawl/v1/record_pb.js";
import {
  OutputChunkSchema,
  type StreamTransitionsResponse,
  type OutputChunk as WireOutputChunk,
  type OutputPosition as WireOutputPosition,
} from "./gen/pawl/v1/run_pb.js";
import { type Plain, plain } from "./plain.js";

/** How far the output of a run was read: up to `offset` bytes of one delivery of a turn. */
export type OutputPosition = Plain<WireOutputPosition>;

/**
 * A piece of the output of a turn that is under way. With `reset`, forget what was read of
 * this turn: it is executed anew, or what precedes `offset` is not kept any more.
 */
export type OutputChunk = Plain<WireOutputChunk> & {
  /** What was read with this piece; give it as `after` to go on from here. */
  readonly position: OutputPosition;
};

/** From where to read, and how long to bear with a lost connection. */
export interface OutputOptions extends FollowOptions {
  /** Output that was read before. Default: none. */
  readonly after?: OutputPosition;
}

const NOTHING: OutputPosition = { turnSeq: 0, delivery: 0, offset: 0 };

/** Reads the output of one run, each piece once and in order. */
export class OutputReader implements StreamReader<OutputChunk> {
  readonly #target: { readonly namespace: string; readonly runId: string };
  #read: OutputPosition;

  constructor(
    target: { readonly namespace: string; readonly runId: string },
    options: OutputOptions,
  ) {
    this.#target = target;
    this.#read = options.after ?? NOTHING;
  }

  request(): ReturnType<StreamReader<OutputChunk>["request"]> {
    const { turnSeq, delivery, offset } = this.#read;
    const outputAfter = { turnSeq: BigInt(turnSeq), delivery, offset: BigInt(offset) };
    // The end of the run ends the stream; no other record is wanted.
    const kinds = [RecordKind.ENDED];
    return { ...this.#target, kinds, follow: true, output: true, outputAfter };
  }

  read({ item }: StreamTransitionsResponse): OutputChunk | undefined {
    if (item.case !== "output") {
      return undefined;
    }
    const chunk = plain(OutputChunkSchema, item.value);
    const { turnSeq, delivery, offset } = chunk;
    const end = offset + new TextEncoder().encode(chunk.text).length;
    if (this.#continues(chunk)) {
      if (end <= this.#read.offset) {
        return undefined;
      }
      if (offset !== this.#read.offset) {
        throw gap(chunk, this.#read);
      }
    }
    this.#read = { turnSeq, delivery, offset: end };
    return { ...chunk, position: this.#read };
  }

  #continues({ turnSeq, delivery, reset }: Plain<WireOutputChunk>): boolean {
    return !reset && turnSeq === this.#read.turnSeq && delivery === this.#read.delivery;
  }
}

function gap({ turnSeq, offset }: Plain<WireOutputChunk>, read: OutputPosition): PawlError {
  const text = `output of turn ${turnSeq}: a piece at ${offset}, but ${read.offset} bytes were read`;
  return new PawlError("gap", text, { reason: "STREAM_GAP" });
}
