/** What a handler makes of a turn. */

import { PawlError } from "./errors.js";
import type { Awaiting } from "./gen/pawl/v1/record_pb.js";
import type { AnyTurn, TurnTypes, Writes } from "./types.js";
import type { Content, MessageLike } from "./values.js";

/** What an execution consumed outside the sidecar; all default to 0. */
export interface Usage {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  /** In millionths of a US dollar; counts where `model` has no price. */
  readonly costMicroUsd?: number;
  /** Tool calls made outside the sidecar; they count against max_tool_calls. */
  readonly toolCalls?: number;
  /** Those of `inputTokens` that the provider had cached. */
  readonly cachedTokens?: number;
  /** Those of `outputTokens` that the model thought with. */
  readonly reasoningTokens?: number;
  /** Took the tokens; the pack (x_pawl.prices) or the operator (--prices) says what they cost. */
  readonly model?: string;
  /**
   * True: not all of it was reported. In a record what was missing is that of the bound of the
   * call.
   */
  readonly estimated?: boolean;
  /** True: what a call of a model consumed was told with another attempt. */
  readonly countedBefore?: boolean;
}

/**
 * What a handler makes of a turn.
 *
 *     const reply: pawl.Reply = {
 *       event: "Passed",
 *       artifacts: { report: { passed: true } },
 *       output: "All tests pass.",
 *       usage: { inputTokens: 1200, outputTokens: 80 },
 *     };
 */
export interface Reply<T extends Pick<TurnTypes, "events" | "artifacts"> = AnyTurn> {
  /** One of the turn's allowed events. Default: none, the run ends in a terminal state, else waits. */
  readonly event?: T["events"];
  /** Artifacts to write in the same commit. */
  readonly artifacts?: Writes<T["artifacts"]>;
  /** Final output. */
  readonly output?: Content;
  /** Messages to append to the conversation, oldest first. */
  readonly messages?: readonly MessageLike[];
  readonly usage?: Usage;
  /** Makes the run wait for an input or an authorisation; not with an event. Default: not. */
  readonly awaiting?: Awaiting;
  /** True: over A2A the output answers the sender as a message instead of a task. */
  readonly reply?: boolean;
  /**
   * An answered MODEL step of the turn: what was said up to it becomes part of the
   * conversation, before `messages`, without being stored again.
   */
  readonly conversationThroughStep?: number;
}

/** What a handler returned, as a reply. Throws for anything else. */
export function replyOf(answer: unknown): Reply {
  if (answer === undefined || answer === null) {
    return {};
  }
  if (typeof answer !== "object" || Array.isArray(answer)) {
    throw new PawlError(
      "handler",
      `a handler must return a Reply or nothing, not ${typeof answer}`,
      {
        reason: "BAD_REPLY",
      },
    );
  }
  const unknown = Object.keys(answer).filter((key) => !REPLY_KEYS.includes(key));
  if (unknown.length > 0) {
    throw new PawlError(
      "handler",
      `a Reply has no ${unknown.join(", ")}, only ${REPLY_KEYS.join(", ")}`,
      {
        reason: "BAD_REPLY",
        metadata: { field: unknown[0] ?? "", allowed: REPLY_KEYS.join(", ") },
      },
    );
  }
  const { artifacts } = answer as { artifacts?: unknown };
  if (artifacts !== undefined && (typeof artifacts !== "object" || Array.isArray(artifacts))) {
    throw new PawlError(
      "handler",
      `artifacts: must be an object of values by name, not ${typeof artifacts}`,
      {
        reason: "BAD_REPLY",
        metadata: { field: "artifacts" },
      },
    );
  }
  return answer as Reply;
}

const REPLY_KEYS: readonly string[] = [
  "artifacts",
  "awaiting",
  "conversationThroughStep",
  "event",
  "messages",
  "output",
  "reply",
  "usage",
] satisfies readonly (keyof Reply)[];
