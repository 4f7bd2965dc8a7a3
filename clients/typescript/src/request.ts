/** Requests about turns, for RunService and for workers alike. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { FaultSchema, UsageSchema, TurnRef as WireTurnRef } from "./gen/pawl/v1/record_pb.js";
import type { CompleteTurnRequestSchema } from "./gen/pawl/v1/run_pb.js";
import type { Json, Plain } from "./plain.js";
import type { Reply, Usage } from "./turn.js";
import { messageOf, partsOf, type Slots, toJsonText, writesOf } from "./values.js";

/** Identity of one open turn, with its token. */
export type TurnRef = Pick<Plain<WireTurnRef>, "runId" | "turnSeq" | "attempt" | "token">;

/** An error as data. */
export interface Fault {
  /** Machine-readable word; at most 128 bytes. */
  readonly code: string;
  /** For people. Default empty. */
  readonly message?: string;
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
    }
  );
}

/** An error as the wire has it. */
export function faultRequest(fault: Fault): MessageInitShape<typeof FaultSchema> {
  return { code: fault.code, message: fault.message ?? "" };
}

/** The answer to a step as the wire has it. */
export function answerOf(answer: { readonly result: Json } | { readonly error: Fault }) {
  return "error" in answer
    ? { case: "error" as const, value: faultRequest(answer.error) }
    : { case: "resultJson" as const, value: toJsonText(answer.result, "result") };
}
