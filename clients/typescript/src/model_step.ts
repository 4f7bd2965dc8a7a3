/** What a model is asked and what it answers, as records have it; see docs/guides/models.md. */

import type { GetModelStepResponse, RequestModelResponse } from "./gen/pawl/v1/run_pb.js";
import type { Json, Plain } from "./plain_message.js";
import type { Usage } from "./reply.js";
import type { Fault } from "./turn_requests.js";
import type { Content, MessageLike } from "./values.js";

/** Messages of a request: a new one, or some that were said before; exactly one of them. */
export type ModelMessage =
  | { readonly message: MessageLike }
  /** Messages of the turn's conversation; `count` 0 (default): all from `first` (default 0) on. */
  | { readonly conversation: { readonly first?: number; readonly count?: number } }
  /** The answer of a MODEL step of the visit. */
  | { readonly answer: number }
  /** What an answered tool step of the visit says to the model. */
  | { readonly result: { readonly step: number; readonly callId?: string } }
  /** The record of what a person said to the run, or of a notice. */
  | { readonly includedSeq: bigint };

/** What a model is asked: settings and messages, each said once and referred to then. */
export interface ModelRequest {
  readonly model: string;
  /** An answered MODEL step of the visit: its messages and answer come before `messages`. */
  readonly previousStep?: number;
  /** Default: that of `previousStep`, else none. So for `tools` and `parameters`. */
  readonly system?: string;
  readonly tools?: Json;
  readonly parameters?: Json;
  readonly messages?: readonly ModelMessage[];
}

/**
 * A tool call of an answer: `arguments` is the text of a JSON object. `brokenArguments` is what
 * the model wrote where that was no object; `arguments` is "{}" then.
 */
export interface ModelCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  readonly brokenArguments?: string;
}

/** What a model answered. */
export interface ModelAnswer {
  readonly content?: Content;
  readonly calls?: readonly ModelCall[];
  readonly refusal?: string;
  /** "stop", "tool_calls", "length", "content_filter", or the provider's own word. */
  readonly finishReason?: string;
  /** Model that answered, as the provider names it. */
  readonly model?: string;
  /** The provider's id of the response. */
  readonly responseId?: string;
  /**
   * The message as the executor's library has it, repeated in later requests as it is:
   * `{library, version, message}`.
   */
  readonly provider?: Json;
  /** Provider that answered, as the library names it, for example "openai". */
  readonly providerName?: string;
}

/** A failed call of a model. */
export interface ModelFailure {
  readonly error: Fault;
  /** True: no further attempt can help. */
  readonly nonRetryable?: boolean;
  /** How many milliseconds the provider asks to wait. */
  readonly retryAfterMs?: number;
}

/** What came of the call of a model. */
export type ModelOutcome = { readonly answer: ModelAnswer } | { readonly failure: ModelFailure };

/** The call of a model that a turn asks for. */
export interface ModelAsk {
  /** Round of the turn, from 1. */
  readonly round: number;
  readonly request: ModelRequest;
  /** What the call may consume at most. */
  readonly bound?: Usage;
  /** For what is no round of a conversation. Default: made of the round. */
  readonly key?: string;
}

/** What a provider tells of its own limits: how much is left, and when all of it is there again. */
export interface ProviderLimits {
  readonly requests?: number;
  readonly requestsResetMs?: number;
  readonly tokens?: number;
  readonly tokensResetMs?: number;
}

/** The outcome of a call of a model. */
export interface ModelReport {
  readonly step: number;
  readonly attempt: number;
  readonly outcome: ModelOutcome;
  readonly usage?: Usage;
  /** Moves the operator's limits that are the provider's. */
  readonly limits?: ProviderLimits | undefined;
}

/** The tool call of a model that a step makes; `index` is from 0. */
export interface ToolCallRef {
  readonly modelStep: number;
  readonly index: number;
}

/** The MODEL step of a round. */
export type ModelRound = Plain<RequestModelResponse>;

/** A MODEL step as it was asked, byte for byte, and answered. */
export type ModelView = Plain<GetModelStepResponse>;
