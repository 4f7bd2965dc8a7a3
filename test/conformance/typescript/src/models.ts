/** Calls of models as scenarios have them, and the rounds that handlers make. */

import {
  type Fault,
  failTurn,
  type Json,
  json,
  type Step,
  type StepCall,
  StepStatus,
  type Turn,
  textOf,
  type Usage,
} from "pawl-client";
import type { ModelCall, ModelMessage, ModelOutcome, ModelRequest } from "pawl-client/models";
import { Disposition } from "pawl-client/v1";
import { event } from "./lines.js";

/** What a model is asked. */
export interface Asked extends Omit<ModelRequest, "messages" | "previousStep"> {
  readonly previous_step?: number;
  readonly messages?: readonly AskedMessage[];
}

interface AskedMessage {
  readonly message?: {
    readonly role: "user" | "assistant" | "tool" | "system";
    readonly text?: string;
    readonly json?: Json;
    readonly tool_call_id?: string;
  };
  readonly conversation?: { readonly first?: number; readonly count?: number };
  readonly answer?: number;
  readonly result?: { readonly step: number; readonly call_id?: string };
}

/** What came of the call of a model. */
export interface Came {
  readonly answer?: {
    readonly text?: string;
    readonly calls?: readonly Partial<ModelCall>[];
    readonly refusal?: string;
    readonly finish_reason?: string;
    readonly model?: string;
    readonly response_id?: string;
    readonly provider?: Json;
  };
  readonly failure?: Fault & { readonly non_retryable?: boolean; readonly retry_after?: number };
}

/** What was consumed. */
export type UsageArgs = Readonly<Record<string, number>> & { readonly model?: string };

/** One call of a model in a turn, and the tool calls of its answer. */
export interface Round {
  readonly ask: Asked;
  readonly bound?: UsageArgs;
  readonly note?: string;
  readonly hold?: string;
  /** The ledger has it that the model is asked, and its answer is shown in these pieces. */
  readonly stream?: readonly string[];
  /** One entry an attempt, of which the last is repeated. */
  readonly told?: readonly (Came & { readonly usage?: UsageArgs })[];
  /** Those of the answer, in order, made at the same time. */
  readonly calls?: readonly StepCall[];
}

/** What was consumed, as it is given to the client. */
export function usageOf(usage: UsageArgs | undefined): Usage | undefined {
  return (
    usage && {
      inputTokens: usage.input_tokens,
      outputTokens: usage.output_tokens,
      costMicroUsd: usage.cost_micro_usd,
      toolCalls: usage.tool_calls,
      cachedTokens: usage.cached_tokens,
      reasoningTokens: usage.reasoning_tokens,
      model: usage.model,
    }
  );
}

/** What a model is asked, as it is given to the client. */
export function askedOf({ previous_step, messages, ...asked }: Asked): ModelRequest {
  return { ...asked, previousStep: previous_step, messages: messages?.map(messageOf) };
}

function messageOf({ message, conversation, result, answer }: AskedMessage): ModelMessage {
  if (conversation) {
    return { conversation };
  }
  if (result) {
    return { result: { step: result.step, callId: result.call_id } };
  }
  if (!message) {
    return { answer: answer ?? 0 };
  }
  const { role, text, tool_call_id: toolCallId } = message;
  const content = message.json === undefined ? (text ?? "") : json(message.json);
  return { message: { role, content, toolCallId } };
}

/** What came of the call, as it is given to the client. */
export function outcomeOf({ answer, failure }: Came): ModelOutcome {
  if (failure) {
    const { code, message, non_retryable: nonRetryable, retry_after } = failure;
    const retryAfterMs = retry_after === undefined ? undefined : retry_after * 1000;
    return { failure: { error: { code, message }, nonRetryable, retryAfterMs } };
  }
  const { text, calls, finish_reason, response_id, ...words } = answer ?? {};
  return {
    answer: {
      ...words,
      content: text,
      calls: calls?.map((call) => ({ id: "", name: "", arguments: "", ...call })),
      finishReason: finish_reason,
      responseId: response_id,
    },
  };
}

/** What rounds need of the player: to hold, to come to a point, to write down. */
export interface RoundHost {
  hold(name: string): Promise<void>;
  at(name: string): Promise<void>;
  enter(line: object): void;
}

/** Makes the rounds of a turn, from 1, and the tool calls of their answers. */
export async function makeRounds(
  turn: Turn,
  rounds: readonly Round[],
  host: RoundHost,
): Promise<void> {
  for (const [index, act] of rounds.entries()) {
    const modelStep = await makeRound(turn, index + 1, act, host);
    const calls = (act.calls ?? []).map((call, at) => ({
      ...call,
      call: { modelStep, index: at },
    }));
    if (calls.length > 0) {
      await host.at("call");
    }
    for (const [at, { denial, step, replayed }] of (await turn.calls(calls)).entries()) {
      event("called", {
        index: at,
        tool: calls[at]?.tool,
        denial: denial?.code ?? "",
        replayed,
        step: step?.step ?? 0,
        result: step?.result ?? null,
        error: step?.error?.code ?? "",
      });
    }
  }
}

/** Asks for a call, makes it if it is open, and gives its step. */
async function makeRound(turn: Turn, round: number, act: Round, host: RoundHost): Promise<number> {
  const request = askedOf(act.ask);
  const { step, denial, replayed } = await turn.requestModel({
    ...{ round, request },
    bound: usageOf(act.bound),
  });
  event("asked", {
    round,
    step: step?.step ?? 0,
    attempt: step?.attempt ?? 0,
    replayed,
    status: StepStatus[step?.status ?? StepStatus.UNSPECIFIED],
    denial: denial?.code ?? "",
    response_id: step?.model?.responseId ?? "",
    text: textOf(step?.model?.answer?.parts ?? []),
  });
  if (!step) {
    throw failTurn(denial?.code ?? "NO_STEP");
  }
  if (step.status === StepStatus.ERROR) {
    throw failTurn(step.error?.code ?? "ERROR");
  }
  if (step.status === StepStatus.PENDING) {
    await stream(turn, round, act.stream ?? [], host);
    await tell(turn, step, act, host);
  }
  return step.step;
}

/** Writes down that the model is asked, and shows its answer piece by piece. */
async function stream(
  turn: Turn,
  round: number,
  pieces: readonly string[],
  host: RoundHost,
): Promise<void> {
  if (pieces.length > 0) {
    host.enter({ tool: "model", key: `${turn.runId}/${round}` });
  }
  for (const piece of pieces) {
    await turn.output(piece);
    await host.at(`stream/${round}`);
  }
}

/** Tells what the model said, attempt by attempt. */
async function tell(
  turn: Turn,
  { step, attempt: first }: Step,
  { note, hold, told = [] }: Round,
  host: RoundHost,
): Promise<void> {
  if (note !== undefined) {
    await turn.updateModelCall(step, first, note);
  }
  if (hold !== undefined) {
    await host.hold(hold);
  }
  for (let attempt = first, n = 0; attempt > 0; n += 1) {
    const entry = told[Math.min(n, told.length - 1)] ?? {};
    const outcome = outcomeOf(entry);
    const usage = usageOf(entry.usage);
    const {
      next,
      wait = 0,
      disposition,
    } = await turn.answerModel({
      ...{ step, attempt, outcome, usage },
    });
    event("told", {
      ...{ step, attempt, next },
      wait: wait / 1000,
      disposition: Disposition[disposition],
    });
    if ("answer" in outcome) {
      return;
    }
    if (next === 0) {
      throw failTurn(outcome.failure.error.code);
    }
    attempt = next;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}
