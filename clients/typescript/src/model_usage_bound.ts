/** The most that a model call may consume, as far as it can be known before. */

import { toJsonText } from "./json_text.js";
import { type Ask, type ConversationMessage, callsOf, textIn } from "./model_prompt.js";
import type { Usage } from "./reply.js";

/** Output tokens of a call for which the pack sets no `max_tokens`. */
const OUTPUT_TOKENS = 4096;
/** Tokens of a part that is neither text nor JSON. */
const MEDIA_TOKENS = 1000;
const BYTES_PER_TOKEN = 4;

/**
 * Returns the bound of a call: the input and output of the last call, and one token for four bytes
 * of the `fresh` messages; for the first call, of all messages.
 */
export function boundOf(ask: Ask, last: Usage, fresh: readonly ConversationMessage[]): Usage {
  const { inputTokens = 0, outputTokens = 0, estimated = false } = last;
  const read =
    inputTokens > 0 && !estimated
      ? inputTokens + outputTokens + tokensOf(fresh)
      : tokensOf(ask.messages, settingsOf(ask));
  return { inputTokens: read, outputTokens: maxTokensOf(ask) || OUTPUT_TOKENS };
}

/**
 * Returns the limit of an answer in tokens from the program's settings, or else from the pack; 0:
 * neither sets one.
 */
export function maxTokensOf({
  parameters,
  settings,
}: Pick<Ask, "parameters" | "settings">): number {
  const given = [settings.maxOutputTokens, parameters.max_tokens];
  const text = given.find((most) => Number.isSafeInteger(most) && Number(most) >= 1);
  return text === undefined ? 0 : Number(text);
}

function settingsOf({ system, tools }: Ask): string {
  return tools.length > 0 ? system + toJsonText(tools, "tools") : system;
}

function tokensOf(messages: readonly ConversationMessage[], settings = ""): number {
  let bytes = bytesOf(settings);
  let media = 0;
  for (const message of messages) {
    const texts = message.parts.map(textIn);
    media += texts.filter((text) => text === undefined).length;
    const calls = callsOf(message).map((call) => call.arguments);
    bytes += [...texts, ...calls].reduce((sum, text) => sum + bytesOf(text ?? ""), 0);
  }
  return Math.ceil(bytes / BYTES_PER_TOKEN) + media * MEDIA_TOKENS;
}

function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}
