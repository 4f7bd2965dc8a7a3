/** Messages of a conversation as a chat model reads them. */

import type {
  ChatCompletionAssistantMessageParam,
  ChatCompletionContentPart,
  ChatCompletionMessageFunctionToolCall,
  ChatCompletionMessageParam,
} from "openai/resources/chat/completions";
import type { Draft } from "./chat_answer.js";
import type { TurnInfo } from "./turn.js";
import type { Part } from "./values.js";

type Message = TurnInfo["messages"][number];
type ToolCall = ChatCompletionMessageFunctionToolCall;

/** A message of the conversation. */
export function wireMessage(message: Message): ChatCompletionMessageParam {
  const wire: { [field: string]: unknown } = { role: message.role, content: contentOf(message) };
  if (message.toolCalls !== undefined) {
    wire.tool_calls = message.toolCalls;
    wire.content ||= null;
  }
  if (message.toolCallId !== "") {
    wire.tool_call_id = message.toolCallId;
  }
  // What was stored is what a model said before; an endpoint judges it, not this.
  return wire as unknown as ChatCompletionMessageParam;
}

/** What a model said together with the calls that it asked for. */
export function wireCalls(
  text: string,
  drafts: readonly Draft[],
): ChatCompletionAssistantMessageParam & { tool_calls: ToolCall[] } {
  const calls = drafts.map(
    ({ id, name, arguments: given }): ToolCall => ({
      id,
      type: "function",
      function: { name, arguments: given },
    }),
  );
  return { role: "assistant", content: text || null, tool_calls: calls };
}

function contentOf({ parts }: Message): string | ChatCompletionContentPart[] {
  return parts.some(isImage) ? parts.map(pieceOf) : parts.map(wordsOf).join("\n");
}

function pieceOf(part: Part): ChatCompletionContentPart {
  return isImage(part)
    ? { type: "image_url", image_url: { url: String(part.content.value) } }
    : { type: "text", text: wordsOf(part) };
}

function isImage({ content, mediaType }: Part): boolean {
  return content.case === "uri" && mediaType.startsWith("image/");
}

function wordsOf({ content, mediaType }: Part): string {
  if (content.case === "data") {
    return `[${content.value.length} bytes of ${mediaType || "data"}]`;
  }
  return content.value ?? "";
}
