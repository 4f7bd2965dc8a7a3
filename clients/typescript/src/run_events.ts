/** The events of a run, which a program that watches it receives. */

import type {
  RunStatus,
  ToolCallRef,
  ModelCall as WireModelCall,
  Usage as WireUsage,
} from "./gen/pawl/v1/record_pb.js";
import type { ArtifactData, Json, Plain } from "./plain_message.js";
import type { Fault } from "./turn_requests.js";
import type { Part } from "./values.js";

/**
 * Fields of every event. `JSON.stringify` writes an event with the whole numbers that are bigint as
 * text.
 */
export interface EventPlace {
  readonly runId: string;
  /**
   * Seq of the record that caused the event; for a piece of output, of the newest record before it.
   */
  readonly seq: number;
  /** Position after the event: `run.events({ after: cursor })` continues from here. */
  readonly cursor: string;
  /** The turn of the event; 0: it belongs to no turn. */
  readonly turnSeq: number;
  /** The attempt of the turn, from 1; 0: the event belongs to no turn. */
  readonly attempt: number;
}

/**
 * A piece of the turn's output. The pieces of a turn after its last ResetEvent are its text: many
 * pieces while the turn is executed, one piece for later readers.
 */
export interface TextEvent extends EventPlace {
  readonly kind: "text";
  readonly text: string;
}

/** A piece of the model's reasoning, while the turn is executed. No record contains it. */
export interface ReasoningEvent extends EventPlace {
  readonly kind: "reasoning";
  readonly text: string;
}

/**
 * Discards all text and reasoning of this turn (`turnSeq`) that was received before; the valid part
 * follows again. Other turns and events of records stay valid.
 */
export interface ResetEvent extends EventPlace {
  readonly kind: "reset";
}

/** A call of a tool or of an agent begins. */
export interface ToolCallEvent extends EventPlace {
  readonly kind: "tool_call";
  readonly step: number;
  readonly tool: string;
  readonly payload: Json | undefined;
  /** The model's call that the step makes. Undefined means that no model requested it. */
  readonly call: Plain<ToolCallRef> | undefined;
  /** Id of the model's call. */
  readonly callId: string;
}

/** The final answer to a tool call: a `result`, or with `ok` false an `error`. */
export interface ToolResultEvent extends EventPlace {
  readonly kind: "tool_result";
  /** 0: the call was denied, so there is no step. */
  readonly step: number;
  readonly tool: string;
  readonly ok: boolean;
  readonly result: Json | undefined;
  readonly error: Fault | undefined;
  readonly call: Plain<ToolCallRef> | undefined;
  readonly callId: string;
}

/** The run entered a state by an `event` from `source`; both are empty for the first state. */
export interface TransitionEvent extends EventPlace {
  readonly kind: "transition";
  readonly source: string;
  readonly event: string;
  readonly to: string;
  readonly visit: number;
}

/** The run wrote an artifact. In the mode APPEND `value` is the added part. */
export interface ArtifactEvent extends EventPlace {
  readonly kind: "artifact";
  readonly name: string;
  readonly value: ArtifactData;
  readonly mediaType: string;
}

/**
 * The run waits. `on` is "input" (an input or an event), "auth" (an authorisation and an input),
 * "approval" (a decision about a held call, with its `step`, `tool` and `digest`), "steps" (answers
 * to `steps`), "timer", or "paused" (until it is resumed).
 */
export interface WaitEvent extends EventPlace {
  readonly kind: "wait";
  readonly on: "input" | "auth" | "approval" | "steps" | "timer" | "paused";
  readonly step: number;
  readonly tool: string;
  readonly digest: string;
  readonly steps: readonly number[];
  /** The question of an agent; the answer is an input for `step`. */
  readonly parts: readonly Part[];
  /** When the wait ends by itself. Undefined means that it does not. */
  readonly until: Date | undefined;
}

/** An execution of a turn may begin or continue. */
export interface TurnBeganEvent extends EventPlace {
  readonly kind: "turn_began";
  /** Empty if the state was entered before the cursor at which the reader began. */
  readonly state: string;
}

/**
 * An execution of a turn has ended. `outcome` is "completed" (with an `output` and perhaps an
 * `event`), "failed" (with an `error`), "abandoned", or "suspended" until its steps are answered.
 */
export interface TurnEndedEvent extends EventPlace {
  readonly kind: "turn_ended";
  readonly outcome: "completed" | "failed" | "abandoned" | "suspended";
  readonly output: readonly Part[];
  readonly event: string;
  readonly usage: Plain<WireUsage> | undefined;
  readonly error: Fault | undefined;
  /** The attempt that follows a failed one; 0: none. */
  readonly next: number;
  /**
   * The MODEL step whose answer was rejected; the next attempt asks the model again for it. 0:
   * none.
   */
  readonly rejectedStep: number;
}

/** A model call begins: the MODEL step `step`, for the `tryNumber`-th time. */
export interface RoundBeganEvent extends EventPlace {
  readonly kind: "round_began";
  readonly step: number;
  readonly model: string;
  readonly tryNumber: number;
}

/** The model answered, or with `ok` false the call failed. */
export interface RoundEndedEvent extends EventPlace {
  readonly kind: "round_ended";
  readonly step: number;
  readonly model: string;
  readonly ok: boolean;
  readonly usage: Plain<WireUsage> | undefined;
  readonly finishReason: string;
  readonly error: Fault | undefined;
  /** The next try of the call; 0: none. */
  readonly next: number;
}

/** A complete message of the conversation. */
export interface MessageEvent extends EventPlace {
  readonly kind: "message";
  /** The author of the message: user, assistant, tool or system. */
  readonly role: string;
  readonly parts: readonly Part[];
  /** Calls of a model's answer; `step` is its MODEL step. */
  readonly calls: readonly Plain<WireModelCall>[];
  /** Id of the call that a tool's message answers, if no step was made for it. */
  readonly callId: string;
  readonly refusal: string;
  readonly step: number;
}

/** The run has ended. */
export interface EndEvent extends EventPlace {
  readonly kind: "end";
  readonly status: RunStatus;
  readonly reason: string;
  /** Output of the last completed turn, as far as the reader has read it. */
  readonly output: readonly Part[];
  /** The final values of the artifacts by name. */
  readonly artifacts: { readonly [name: string]: ArtifactData };
}

/** An event of a run; `kind` selects the type. */
export type RunEvent =
  | TextEvent
  | ReasoningEvent
  | ResetEvent
  | ToolCallEvent
  | ToolResultEvent
  | TransitionEvent
  | ArtifactEvent
  | WaitEvent
  | TurnBeganEvent
  | TurnEndedEvent
  | RoundBeganEvent
  | RoundEndedEvent
  | MessageEvent
  | EndEvent;

/** The result of a model's tool call. */
export interface CallResult {
  readonly callId: string;
  readonly tool: string;
  readonly ok: boolean;
  readonly result: Json | undefined;
  readonly error: Fault | undefined;
}

/**
 * One message of a run's history. A message of the assistant has the `calls` of its answer; the
 * next one, of the role tool, has their `results` in the same order.
 */
export interface HistoryMessage {
  readonly role: string;
  readonly parts: readonly Part[];
  readonly calls: readonly Plain<WireModelCall>[];
  readonly results: readonly CallResult[];
  readonly refusal: string;
  readonly seq: number;
  readonly turnSeq: number;
}
