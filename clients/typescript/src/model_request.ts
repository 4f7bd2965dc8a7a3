/** Requests about model calls as protobuf messages. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  ModelAnswerSchema,
  ModelMessageSchema,
  ModelRequestSchema,
} from "./gen/pawl/v1/record_pb.js";
import type {
  AnswerModelRequestSchema,
  ProviderLimitsSchema,
  RequestModelRequestSchema,
  StepRequestSchema,
  UpdateModelCallRequestSchema,
} from "./gen/pawl/v1/run_pb.js";
import { toJsonText } from "./json_text.js";
import type {
  ModelAnswer,
  ModelAsk,
  ModelMessage,
  ModelOutcome,
  ModelReport,
  ModelRequest,
  ProviderLimits,
} from "./model_step.js";
import type { StepCall } from "./turn.js";
import { faultRequest, type TurnRef, turnTarget, usageOf } from "./turn_requests.js";
import { messageOf, partsOf } from "./values.js";

/** Returns the request for a model call. */
export function askRequest(
  namespace: string,
  turn: TurnRef,
  ask: ModelAsk,
): MessageInitShape<typeof RequestModelRequestSchema> {
  return {
    ...turnTarget(namespace, turn),
    round: ask.round,
    key: ask.key ?? "",
    request: modelRequest(ask.request),
    bound: usageOf(ask.bound),
    includeRequired: true,
  };
}

/** Returns the request that reports the outcome of a model call. */
export function outcomeRequest(
  namespace: string,
  { runId, token }: TurnRef,
  report: ModelReport,
): MessageInitShape<typeof AnswerModelRequestSchema> {
  const { step, attempt } = report;
  const outcome = outcomeOf(report.outcome);
  const usage = usageOf(report.usage);
  const providerLimits = limitsOf(report.limits);
  return { namespace, runId, step, attempt, turnToken: token, outcome, usage, providerLimits };
}

function limitsOf(
  limits: ProviderLimits | undefined,
): MessageInitShape<typeof ProviderLimitsSchema> | undefined {
  if (!limits) {
    return undefined;
  }
  const { requests, requestsResetMs = 0, tokens, tokensResetMs = 0 } = limits;
  return {
    ...(requests === undefined
      ? {}
      : { requests: BigInt(requests), requestsReset: durationOf(requestsResetMs) }),
    ...(tokens === undefined
      ? {}
      : { tokens: BigInt(tokens), tokensReset: durationOf(tokensResetMs) }),
  };
}

/** Returns the request that stores the provider's id of a response. */
export function noteRequest(
  namespace: string,
  { runId, token }: TurnRef,
  note: { readonly step: number; readonly attempt: number; readonly responseId: string },
): MessageInitShape<typeof UpdateModelCallRequestSchema> {
  return { namespace, runId, turnToken: token, ...note };
}

/** Returns the request for a tool call. */
export function stepRequest(call: StepCall): MessageInitShape<typeof StepRequestSchema> {
  return {
    key: call.key ?? "",
    tool: call.tool,
    payloadJson: toJsonText(call.payload === undefined ? {} : call.payload, "payload"),
    reframe: call.reframe ?? false,
    byCaller: call.byCaller ?? false,
    call: call.call,
  };
}

function modelRequest(request: ModelRequest): MessageInitShape<typeof ModelRequestSchema> {
  const { model, previousStep, system, tools, parameters, messages } = request;
  return {
    model,
    previousStep: previousStep ?? 0,
    system,
    toolsJson: tools === undefined ? undefined : toJsonText(tools, "tools"),
    parametersJson: parameters === undefined ? undefined : toJsonText(parameters, "parameters"),
    messages: (messages ?? []).map((message) => ({ content: contentOf(message) })),
  };
}

function contentOf(given: ModelMessage): MessageInitShape<typeof ModelMessageSchema>["content"] {
  if ("message" in given) {
    return { case: "message", value: messageOf(given.message) };
  }
  if ("conversation" in given) {
    return { case: "conversation", value: given.conversation };
  }
  if ("includedSeq" in given) {
    return { case: "includedSeq", value: given.includedSeq };
  }
  return "result" in given
    ? { case: "result", value: given.result }
    : { case: "answer", value: given.answer };
}

function outcomeOf(
  outcome: ModelOutcome,
): MessageInitShape<typeof AnswerModelRequestSchema>["outcome"] {
  if ("answer" in outcome) {
    return { case: "answer", value: answerInit(outcome.answer) };
  }
  const { error, nonRetryable, retryAfterMs } = outcome.failure;
  const value = {
    error: faultRequest(error),
    nonRetryable: nonRetryable ?? false,
    retryAfter: retryAfterMs === undefined ? undefined : durationOf(retryAfterMs),
  };
  return { case: "failure", value };
}

function answerInit(answer: ModelAnswer): MessageInitShape<typeof ModelAnswerSchema> {
  const { content, provider, calls, ...words } = answer;
  return {
    ...words,
    parts: partsOf(content),
    calls: (calls ?? []).map(({ brokenArguments = "", ...call }) => ({ ...call, brokenArguments })),
    providerJson: provider === undefined ? "" : toJsonText(provider, "provider"),
  };
}

/** The contract accepts at most a day. */
const LONGEST_MS = 86_400_000;

function durationOf(ms: number): { seconds: bigint; nanos: number } {
  const whole = Math.min(Math.max(0, Math.round(ms)), LONGEST_MS);
  return { seconds: BigInt(Math.floor(whole / 1000)), nanos: (whole % 1000) * 1e6 };
}
