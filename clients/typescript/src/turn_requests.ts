/** Requests about turns, for RunService and for workers alike. */

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

/** Identity of one open turn, with its token. */
export type TurnRef = Pick<Plain<WireTurnRef>, "runId" | "turnSeq" | "attempt" | "token">;

/** An error as data. */
export interface Fault {
  /** Machine-readable word; at most 128 bytes. */
  readonly code: string;
  /** For people. Default empty. */
  readonly message?: string;
  /** Where the reporter's code threw it, for the author of that code. Default empty. */
  readonly trace?: string;
}

/** The fields that name a turn. */
export function turnTarget(namespace: string, turn: TurnRef) {
  return {
    namespace,
    runId: turn.runId,
    turnSeq: BigInt(turn.turnSeq),
    attempt: turn.attempt,
    turnToken: turn.token,
  };
}

/** The fields of a completion that come from a handler. */
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

/** A piece of output that is kept as a record, part of an artifact of the run's A2A task. */
export interface OutputPiece {
  /** Names the artifact among those of the run. */
  readonly id: string;
  /** For people. Default empty. */
  readonly name?: string;
  /** For people. Default empty. */
  readonly description?: string;
  /** May be left out only with `last`. */
  readonly parts?: Content;
  /** True: adds to what the artifact has. Default false: replaces it. */
  readonly append?: boolean;
  /** True: the last piece of this artifact. Default false. */
  readonly last?: boolean;
  /** Further properties. Default: none. */
  readonly metadata?: { readonly [name: string]: Json };
}

/** A piece of output as the wire has it. */
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

/** Consumption as the wire has it. */
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

/** An error as the wire has it. */
export function faultRequest(fault: Fault): MessageInitShape<typeof FaultSchema> {
  return { code: fault.code, message: fault.message ?? "", trace: fault.trace ?? "" };
}

/** The error of a step, with what its giver says of further attempts. */
export interface StepFault extends Fault {
  /** True: the step is not attempted again, even where the pack allows it. Default false. */
  readonly nonRetryable?: boolean;
  /** The next attempt waits at least so long, up to the tool's longest pause. */
  readonly retryAfterMs?: number | undefined;
  /**
   * What the call changes elsewhere may have happened all the same; what follows is the pack's
   * word (`on_unknown`), not `nonRetryable`. Default false.
   */
  readonly unknown?: boolean;
}

/** The answer to a step as the wire has it. */
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

/** A wait as the contract takes it: from 0 to a day. */
function waitOf(ms: number): number {
  return ms > 0 ? Math.min(ms, 86_400_000) : 0;
}
