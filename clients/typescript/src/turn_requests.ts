/** Requests about turns, which RunService and workers share. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import {
  Awaiting,
  type FaultSchema,
  type OutputPieceSchema,
  type UsageSchema,
  type TurnRef as WireTurnRef,
} from "./gen/pawl/v1/record_pb.js";
import type { CompleteTurnRequestSchema } from "./gen/pawl/v1/run_pb.js";
import { toJsonText } from "./json_text.js";
import type { Json, Plain } from "./plain_message.js";
import type { Reply, Usage } from "./reply.js";
import { type Content, messageOf, partsOf, type Slots, writesOf } from "./values.js";

/** Identifies an open turn, with its token. */
export type TurnRef = Pick<Plain<WireTurnRef>, "runId" | "turnSeq" | "attempt" | "token">;

/** An error as data. */
export interface Fault {
  /** Machine-readable code; at most 128 bytes. */
  readonly code: string;
  /** Message for people. Default empty. */
  readonly message?: string;
  /** Where the error was thrown, for the author of that code. Default empty. */
  readonly trace?: string;
}

/** Returns the fields that name a turn. */
export function turnTarget(namespace: string, turn: TurnRef) {
  return {
    namespace,
    runId: turn.runId,
    turnSeq: BigInt(turn.turnSeq),
    attempt: turn.attempt,
    turnToken: turn.token,
  };
}

/** Returns the fields of a completion that come from a handler. */
export function completionOf(
  reply: Reply,
  slots: Slots | undefined,
): MessageInitShape<typeof CompleteTurnRequestSchema> {
  return {
    output: partsOf(reply.output),
    messages: (reply.messages ?? []).map(messageOf),
    usage: usageOf(reply.usage),
    event: reply.event ?? "",
    artifacts: writesOf(reply.artifacts, slots),
    awaiting: reply.awaiting ?? Awaiting.UNSPECIFIED,
    reply: reply.reply ?? false,
    conversationThroughStep: reply.conversationThroughStep ?? 0,
  };
}

/** A piece of output that is stored as a record, as part of an artifact of the run's A2A task. */
export interface OutputPiece {
  /** Names the artifact within the run. */
  readonly id: string;
  /** Name for people. Default empty. */
  readonly name?: string;
  /** Description for people. Default empty. */
  readonly description?: string;
  /** Content of the piece; optional only with `last`. */
  readonly parts?: Content;
  /** True: added to the artifact. Default false: replaces its content. */
  readonly append?: boolean;
  /** True: the last piece of this artifact. Default false. */
  readonly last?: boolean;
  /** Further properties. Default: none. */
  readonly metadata?: { readonly [name: string]: Json };
}

/** Returns a piece of output as a protobuf message. */
export function pieceOf(piece: OutputPiece): MessageInitShape<typeof OutputPieceSchema> {
  return {
    id: piece.id,
    name: piece.name ?? "",
    description: piece.description ?? "",
    parts: partsOf(piece.parts),
    append: piece.append ?? false,
    last: piece.last ?? false,
    metadataJson: piece.metadata === undefined ? "" : toJsonText(piece.metadata, "metadata"),
  };
}

/** Returns consumption as a protobuf message. */
export function usageOf(
  usage: Usage | undefined,
): MessageInitShape<typeof UsageSchema> | undefined {
  return (
    usage && {
      inputTokens: BigInt(usage.inputTokens ?? 0),
      outputTokens: BigInt(usage.outputTokens ?? 0),
      costMicroUsd: BigInt(usage.costMicroUsd ?? 0),
      toolCalls: usage.toolCalls ?? 0,
      cachedTokens: BigInt(usage.cachedTokens ?? 0),
      reasoningTokens: BigInt(usage.reasoningTokens ?? 0),
      model: usage.model ?? "",
      estimated: usage.estimated ?? false,
      countedBefore: usage.countedBefore ?? false,
    }
  );
}

/** Returns an error as a protobuf message. */
export function faultRequest(fault: Fault): MessageInitShape<typeof FaultSchema> {
  return { code: fault.code, message: fault.message ?? "", trace: fault.trace ?? "" };
}

/** The error of a step, and whether a further attempt may follow. */
export interface StepFault extends Fault {
  /** True means that no further attempt is made, even if the pack allows more. Default false. */
  readonly nonRetryable?: boolean;
  /** Milliseconds before the next attempt, at most the tool's longest pause. */
  readonly retryAfterMs?: number | undefined;
  /**
   * True: the call may have had its effect. The pack's `on_unknown` then decides what follows, not
   * `nonRetryable`. Default false.
   */
  readonly unknown?: boolean;
}

/** Returns the answer to a step as a protobuf message. */
export function answerOf(answer: { readonly result: Json } | { readonly error: StepFault }) {
  if (!("error" in answer)) {
    const value = toJsonText(answer.result, "result");
    return { answer: { case: "resultJson" as const, value } };
  }
  const { error } = answer;
  const { unknown = false } = error;
  const nonRetryable = error.nonRetryable === true && !unknown;
  const ms = nonRetryable ? undefined : error.retryAfterMs;
  return {
    answer: { case: "error" as const, value: faultRequest(error) },
    nonRetryable,
    unknown,
    ...(ms === undefined ? {} : { retryAfter: durationFromMs(Math.ceil(waitOf(ms))) }),
  };
}

/** Limits a wait to what the contract accepts: from 0 to a day. */
function waitOf(ms: number): number {
  return ms > 0 ? Math.min(ms, 86_400_000) : 0;
}
