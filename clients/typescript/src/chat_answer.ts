/** One answer of a chat model as its pieces come in. */

import type { ChatCompletionChunk } from "openai/resources/chat/completions";
import { failTurn } from "./errors.js";

/** A tool call as the model has written it. */
export interface Draft {
  id: string;
  name: string;
  /** JSON text, not yet checked. */
  arguments: string;
}

/** The pieces of one answer put together. Pure: it reads nothing itself. */
export class ChatAnswer {
  text = "";
  #refusal = "";
  #finish = "";
  readonly #drafts = new Map<number, Draft>();

  /** Takes a piece and gives the text in it. */
  take({ choices: [choice] }: ChatCompletionChunk): string {
    if (!choice) {
      return ""; // The last piece holds the usage alone.
    }
    const { delta } = choice;
    this.#finish = choice.finish_reason ?? this.#finish;
    this.#refusal += delta.refusal ?? "";
    for (const piece of delta.tool_calls ?? []) {
      this.#draft(piece);
    }
    this.text += delta.content ?? "";
    return delta.content ?? "";
  }

  /** The tool calls in their order. Throws for an answer that cannot be used at all. */
  drafts(): readonly Draft[] {
    if (this.#refusal !== "") {
      throw failTurn("REFUSED", this.#refusal);
    }
    if (this.#finish === "content_filter") {
      throw failTurn("CONTENT_FILTER", "the answer was filtered");
    }
    if (this.#finish === "length") {
      throw failTurn("TRUNCATED", "the answer was longer than max_tokens");
    }
    if (this.#finish === "") {
      throw failTurn("STREAM_TRUNCATED", "the stream ended in the midst of the answer");
    }
    return [...this.#drafts].sort(([a], [b]) => a - b).map(([, draft]) => draft);
  }

  #draft(piece: ChatCompletionChunk.Choice.Delta.ToolCall): void {
    const draft = this.#drafts.get(piece.index) ?? { id: "", name: "", arguments: "" };
    this.#drafts.set(piece.index, draft);
    draft.id = piece.id || draft.id;
    draft.name += piece.function?.name ?? "";
    draft.arguments += piece.function?.arguments ?? "";
  }
}
