/** The request of one round to a model, with the names of the contract. */

import type { Json } from "./plain_message.js";
import type { TurnInfo } from "./turn.js";
import type { Part } from "./values.js";

/** A message as the model receives it. */
export type ConversationMessage = Omit<TurnInfo["messages"][number], "envelope">;

/** Values by name, as a pack has them. */
export type Values = { readonly [name: string]: Json };

/** A function that the model can call. */
export interface Offer {
  readonly name: string;
  readonly description: string;
  readonly parameters: Json;
}

/** One request to a model: its settings and all messages. */
export interface Ask {
  readonly system: string;
  readonly tools: readonly Offer[];
  /** Parameters of the pack, with its names. */
  readonly parameters: Values;
  readonly choice: "auto" | "required";
  /** Schema of an answer in JSON. Undefined means any text. */
  readonly schema: Json | undefined;
  readonly messages: readonly ConversationMessage[];
  /** Settings of the program, with the names of the AI SDK. */
  readonly settings: Values;
  /** Limit of the answer in tokens that the provider receives; 0: the provider's own default. */
  readonly most: number;
}

/** A tool call in a message of the conversation. */
interface ConversationCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/**
 * Returns the tool calls of a message. Conversations that are older than MODEL steps have them in
 * the form of chat completions.
 */
export function callsOf({ toolCalls }: Pick<ConversationMessage, "toolCalls">): ConversationCall[] {
  const calls = Array.isArray(toolCalls) ? toolCalls : [];
  return calls.map((call: { [key: string]: unknown }) => {
    const text = (call.function ?? call) as { name?: unknown; arguments?: unknown };
    const given = typeof text.arguments === "string" && text.arguments ? text.arguments : "{}";
    return { id: String(call.id ?? ""), name: String(text.name ?? ""), arguments: given };
  });
}

/** Returns a part as text. Undefined means that it is not text. */
export function textIn({ content }: Part): string | undefined {
  return content.case === "text" || content.case === "json" ? content.value : undefined;
}
