/** The events of a run: what a program that watches it gets. */

import type {
  RunStatus,
  ToolCallRef,
  ModelCall as WireModelCall,
  Usage as WireUsage,
} from "./gen/pawl/v1/record_pb.js";
import type { ArtifactData, Json, Plain } from "./plain_message.js";
import type { Fault } from "./turn_requests.js";
import type { Part } from "./values.js";

/** What every event has. */
export interface EventPlace {
  readonly runId: string;
  /** The record that says it; of a piece of text, the newest one before it. */
  readonly seq: number;
  /** Behind the event: `run.events({ after: cursor })` goes on from there. */
  readonly cursor: string;
  /** The turn; 0 for what belongs to none. */
  readonly turnSeq: number;
  /** The attempt of the turn, from 1; 0 for what belongs to none. */
  readonly attempt: number;
}

/**
 * A piece of what the turn says. The pieces of a turn, behind its last ResetEvent, are its text:
 * piece by piece while it is under way, in one piece for readers that come later.
 */
export interface TextEvent extends EventPlace {
  readonly kind: "text";
  readonly text: string;
}

/** A piece of what the model thinks, while the turn is under way. No record has it. */
export interface ReasoningEvent extends EventPlace {
  readonly kind: "reasoning";
  readonly text: string;
}

/**
 * All text and reasoning of this turn (`turnSeq`) that was shown before is void; what stays of it
 * comes again. Other turns are as they were, and so is all that is a record.
 */
export interface ResetEvent extends EventPlace {
  readonly kind: "reset";
}

/** A tool, or an agent, is called. */
export interface ToolCallEvent extends EventPlace {
  readonly kind: "tool_call";
  readonly step: number;
  readonly tool: string;
  readonly payload: Json | undefined;
  /** The model's call that it makes; undefined: no model asked for it. */
  readonly call: Plain<ToolCallRef> | undefined;
  /** Its id. */
  readonly callId: string;
}

/** The final answer to a tool call: a `result`, or with `ok` false an `error`. */
export interface ToolResultEvent extends EventPlace {
  readonly kind: "tool_result";
  /** 0 for a call that was refused. */
  readonly step: number;
  readonly tool: string;
  readonly ok: boolean;
  readonly result: Json | undefined;
  readonly error: Fault | undefined;
  readonly call: Plain<ToolCallRef> | undefined;
  readonly callId: string;
}

/** A state was entered, by an `event` from `source`; both are empty at the beginning. */
export interface TransitionEvent extends EventPlace {
  readonly kind: "transition";
  readonly source: string;
  readonly event: string;
  readonly to: string;
  readonly visit: number;
}

/** An artifact was written. In the mode APPEND `value` is what was added. */
export interface ArtifactEvent extends EventPlace {
  readonly kind: "artifact";
  readonly name: string;
  readonly value: ArtifactData;
  readonly mediaType: string;
}

/**
 * The run waits: for an "input" (or an event), an authorisation and an input ("auth"), a decision
 * about a held call ("approval", with its `step`, `tool` and `digest`), answers to its "steps", a
 * "timer", or to be resumed ("paused").
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
  /** When the wait ends by itself. */
  readonly until: Date | undefined;
}

/** An execution of a turn may begin, or go on. */
export interface TurnBeganEvent extends EventPlace {
  readonly kind: "turn_began";
  /** Empty if it was said before the cursor that the reader began at. */
  readonly state: string;
}

/**
 * An execution of a turn is over: "completed" with an `output` and perhaps an `event`, "failed"
 * with an `error`, "abandoned", or "suspended" until its steps are answered.
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
   * The MODEL step with the rejected answer, for which the next attempt asks the
   * model anew; 0: none was.
   */
  readonly rejectedStep: number;
}

/** A model is asked: the MODEL step `step`, for the `tryNumber`-th time. */
export interface RoundBeganEvent extends EventPlace {
  readonly kind: "round_began";
  readonly step: number;
  readonly model: string;
  readonly tryNumber: number;
}

/** The model answered, or with `ok` false it did not. */
export interface RoundEndedEvent extends EventPlace {
  readonly kind: "round_ended";
  readonly step: number;
  readonly model: string;
  readonly ok: boolean;
  readonly usage: Plain<WireUsage> | undefined;
  readonly finishReason: string;
  readonly error: Fault | undefined;
  /** The try that follows; 0: none. */
  readonly next: number;
}

/** A whole message of the conversation. */
export interface MessageEvent extends EventPlace {
  readonly kind: "message";
  /** The author of the message: user, assistant, tool or system. */
  readonly role: string;
  readonly parts: readonly Part[];
  /** Those of a model's answer; `step` is its MODEL step. */
  readonly calls: readonly Plain<WireModelCall>[];
  /** The call that a tool's message answers, where no tool was called for it. */
  readonly callId: string;
  readonly refusal: string;
  readonly step: number;
}

/** The run has ended. */
export interface EndEvent extends EventPlace {
  readonly kind: "end";
  readonly status: RunStatus;
  readonly reason: string;
  /** That of its last completed turn, as far as the reader has seen it. */
  readonly output: readonly Part[];
  /** The last values by name. */
  readonly artifacts: { readonly [name: string]: ArtifactData };
}

/** One event of a run; `kind` says which. */
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

/** What a model's call came to. */
export interface CallResult {
  readonly callId: string;
  readonly tool: string;
  readonly ok: boolean;
  readonly result: Json | undefined;
  readonly error: Fault | undefined;
}

/**
 * One message of a run's history. An assistant's has the `calls` of its answer; the next one, of
 * role tool, has their `results` in the same order.
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
