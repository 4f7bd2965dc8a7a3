/** Requests to models and their answers, as records contain them; see docs/guides/models.md. */

import type { GetModelStepResponse, RequestModelResponse } from "./gen/pawl/v1/run_pb.js";
import type { Json, Plain } from "./plain_message.js";
import type { Usage } from "./reply.js";
import type { Fault } from "./turn_requests.js";
import type { Content, MessageLike } from "./values.js";

/** Messages of a request: a new one, or a reference to earlier ones. Exactly one field is set. */
export type ModelMessage =
  | { readonly message: MessageLike }
  /** Messages of the turn's conversation from `first` (default 0) on; `count` 0 (default): all. */
  | { readonly conversation: { readonly first?: number; readonly count?: number } }
  /** The answer of a MODEL step of the visit. */
  | { readonly answer: number }
  /** The message of an answered tool step of the visit. */
  | { readonly result: { readonly step: number; readonly callId?: string } }
  /** The record of a person's message to the run, or of a notice. */
  | { readonly includedSeq: bigint };

/** A request to a model. Settings and messages are recorded once; later requests refer to them. */
export interface ModelRequest {
  readonly model: string;
  /** An answered MODEL step of the visit, whose messages and answer precede `messages`. */
  readonly previousStep?: number;
  /** Default: that of `previousStep`, else none; likewise for `tools` and `parameters`. */
  readonly system?: string;
  readonly tools?: Json;
  readonly parameters?: Json;
  readonly messages?: readonly ModelMessage[];
}

/**
 * A tool call of an answer. `arguments` is the text of a JSON object. If the model wrote no JSON
 * object, `brokenArguments` is its text and `arguments` is "{}".
 */
export interface ModelCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  readonly brokenArguments?: string;
}

/** The answer of a model. */
export interface ModelAnswer {
  readonly content?: Content;
  readonly calls?: readonly ModelCall[];
  readonly refusal?: string;
  /** "stop", "tool_calls", "length", "content_filter", or the provider's own word. */
  readonly finishReason?: string;
  /** Name of the model that answered, from the provider. */
  readonly model?: string;
  /** The provider's id of the response. */
  readonly responseId?: string;
  /**
   * The message in the form of the executor's library, `{library, version, message}`; later
   * requests repeat it unchanged.
   */
  readonly provider?: Json;
  /** Name of the provider that answered, from the library, for example "openai". */
  readonly providerName?: string;
}

/** The error of a model call. */
export interface ModelFailure {
  readonly error: Fault;
  /** True means that no further attempt can succeed. Default false. */
  readonly nonRetryable?: boolean;
  /** How many milliseconds the provider asks to wait. */
  readonly retryAfterMs?: number;
}

/** The outcome of a model call. */
export type ModelOutcome = { readonly answer: ModelAnswer } | { readonly failure: ModelFailure };

/** A model call that a turn requests. */
export interface ModelAsk {
  /** Round of the turn, from 1. */
  readonly round: number;
  readonly request: ModelRequest;
  /** The most that the call may consume. */
  readonly bound?: Usage;
  /** Key of a call that is no round of a conversation. Default: made of the round. */
  readonly key?: string;
}

/** Limits that a provider reports: how much is left, and when all of it is available again. */
export interface ProviderLimits {
  readonly requests?: number;
  readonly requestsResetMs?: number;
  readonly tokens?: number;
  readonly tokensResetMs?: number;
}

/** The reported outcome of a model call. */
export interface ModelReport {
  readonly step: number;
  readonly attempt: number;
  readonly outcome: ModelOutcome;
  readonly usage?: Usage;
  /** Limits of the provider, which adjust those of the operator. Default: none. */
  readonly limits?: ProviderLimits | undefined;
}

/** The model's tool call that a step makes; `index` starts at 0. */
export interface ToolCallRef {
  readonly modelStep: number;
  readonly index: number;
}

/** The MODEL step of a round. */
export type ModelRound = Plain<RequestModelResponse>;

/** A MODEL step with its request, byte for byte, and its answer. */
export type ModelView = Plain<GetModelStepResponse>;
