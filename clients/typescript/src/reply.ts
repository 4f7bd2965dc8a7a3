/** The answer of a handler to a turn. */

import { PawlError } from "./errors.js";
import type { Awaiting } from "./gen/pawl/v1/record_pb.js";
import type { AnyTurn, TurnTypes, Writes } from "./types.js";
import type { Content, MessageLike } from "./values.js";

/** What an execution consumed outside the sidecar. All counts default to 0. */
export interface Usage {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  /** In millionths of a US dollar. It counts if `model` has no price. */
  readonly costMicroUsd?: number;
  /** Tool calls made outside the sidecar; they count against max_tool_calls. */
  readonly toolCalls?: number;
  /** Input tokens that the provider had cached; part of `inputTokens`. */
  readonly cachedTokens?: number;
  /** Output tokens that the model spent on reasoning; part of `outputTokens`. */
  readonly reasoningTokens?: number;
  /**
   * Name of the model that consumed the tokens. The pack (x_pawl.prices) or the operator (--prices)
   * sets its price.
   */
  readonly model?: string;
  /**
   * True: the provider did not report all of it. The record then takes the missing counts from the
   * bound of the call.
   */
  readonly estimated?: boolean;
  /** True means that another attempt reported this consumption before. */
  readonly countedBefore?: boolean;
}

/**
 * The answer of a handler to a turn.
 *
 *     const reply: pawl.Reply = {
 *       event: "Passed",
 *       artifacts: { report: { passed: true } },
 *       output: "All tests pass.",
 *       usage: { inputTokens: 1200, outputTokens: 80 },
 *     };
 */
export interface Reply<T extends Pick<TurnTypes, "events" | "artifacts"> = AnyTurn> {
  /**
   * One of the turn's allowed events. Default: none; the run then ends in a terminal state, and
   * waits in another.
   */
  readonly event?: T["events"];
  /** Artifacts that the same commit writes. */
  readonly artifacts?: Writes<T["artifacts"]>;
  /** Output of the turn. */
  readonly output?: Content;
  /** Messages to append to the conversation, oldest first. */
  readonly messages?: readonly MessageLike[];
  readonly usage?: Usage;
  /**
   * Makes the run wait for an input or an authorisation; not allowed with an event. Default: no
   * wait.
   */
  readonly awaiting?: Awaiting;
  /**
   * True: over A2A the sender receives the output as a message instead of a task. Default false.
   */
  readonly reply?: boolean;
  /**
   * An answered MODEL step of the turn. The messages up to its answer become part of the
   * conversation, before `messages`, and are not stored again.
   */
  readonly conversationThroughStep?: number;
}

/**
 * Returns the value of a handler as a reply. Throws a PawlError (BAD_REPLY) for a value of another
 * type.
 */
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
  const { artifacts, event } = answer as { artifacts?: unknown; event?: unknown };
  if (event !== undefined && typeof event !== "string") {
    throw new PawlError("handler", `event: must be the name of an event, not ${typeof event}`, {
      reason: "BAD_REPLY",
      metadata: { field: "event" },
    });
  }
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
