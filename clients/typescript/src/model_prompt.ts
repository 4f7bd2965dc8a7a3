/** What a model is asked in one round, in the words of the contract. */

import type { Json } from "./plain_message.js";
import type { TurnInfo } from "./turn.js";
import type { Part } from "./values.js";

/** A message as a model is shown it. */
export type ConversationMessage = Omit<TurnInfo["messages"][number], "envelope">;

/** Values by name, as a pack has them. */
export type Values = { readonly [name: string]: Json };

/** A function that a model can call, as the request has it. */
export interface Offer {
  readonly name: string;
  readonly description: string;
  readonly parameters: Json;
}

/** One request to a model: settings, and every message that it is shown. */
export interface Ask {
  readonly system: string;
  readonly tools: readonly Offer[];
  /** Those of the pack, by its names. */
  readonly parameters: Values;
  readonly choice: "auto" | "required";
  /** A text is to be JSON that fits; undefined: it may be any. */
  readonly schema: Json | undefined;
  readonly messages: readonly ConversationMessage[];
  /** Settings of the program, by the names of the AI SDK. */
  readonly settings: Values;
  /** Tokens that the answer may have, sent to the provider; 0: the provider's own default. */
  readonly most: number;
}

/** A tool call in a message of the conversation. */
interface ConversationCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/**
 * The tool calls of a message; conversations of before there were MODEL steps have them in
 * the words of chat completions.
 */
export function callsOf({ toolCalls }: Pick<ConversationMessage, "toolCalls">): ConversationCall[] {
  const calls = Array.isArray(toolCalls) ? toolCalls : [];
  return calls.map((call: { [key: string]: unknown }) => {
    const text = (call.function ?? call) as { name?: unknown; arguments?: unknown };
    const given = typeof text.arguments === "string" && text.arguments ? text.arguments : "{}";
    return { id: String(call.id ?? ""), name: String(text.name ?? ""), arguments: given };
  });
}

/** A part as text; undefined: it is none. */
export function textIn({ content }: Part): string | undefined {
  return content.case === "text" || content.case === "json" ? content.value : undefined;
}
