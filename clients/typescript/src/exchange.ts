/**
 * One turn as an exchange with a chat model: what is asked, and what answers mean. Pure:
 * it neither calls the model nor makes steps.
 */

import type {
  ChatCompletionChunk,
  ChatCompletionCreateParamsStreaming,
  ChatCompletionMessageParam,
  ChatCompletionTool,
} from "openai/resources/chat/completions";
import { CallKeys } from "./call_keys.js";
import { ChatAnswer, type Draft } from "./chat_answer.js";
import { wireCalls, wireMessage } from "./chat_message.js";
import { failTurn } from "./errors.js";
import { Leave, objectOf } from "./leave.js";
import type { Json } from "./plain.js";
import type { Reply } from "./reply.js";
import type { Turn } from "./turn.js";
import type { MessageLike } from "./values.js";

/** A tool call that the model asks for. */
export interface ChatCall {
  readonly id: string;
  readonly tool: string;
  readonly arguments: { readonly [name: string]: Json };
  /** The same call has the same key in every attempt. */
  readonly key: string;
}

/** Settings of a prompt that are handed to the model as they are. */
const PARAMETERS = [
  "temperature",
  "top_p",
  "max_tokens",
  "seed",
  "stop",
  "frequency_penalty",
] as const;

/** The exchange of one turn. `reply` is set once the turn is over. */
export class Exchange {
  reply: Reply | undefined;
  readonly #turn: Turn;
  readonly #model: string;
  readonly #leave: Leave;
  readonly #messages: ChatCompletionMessageParam[];
  readonly #said: MessageLike[] = [];
  readonly #keys = new CallKeys();
  #left: number;
  #inputTokens = 0;
  #outputTokens = 0;
  #answer = new ChatAnswer();

  /** `rounds` bounds the answers of the model. */
  constructor(turn: Turn, model: string, rounds: number) {
    this.#turn = turn;
    this.#model = model;
    this.#left = rounds;
    this.#leave = new Leave(turn);
    this.#messages = [
      { role: "system", content: turn.systemPrompt },
      ...turn.messages.map(wireMessage),
    ];
  }

  /** The next request. Throws after too many rounds. */
  request(): ChatCompletionCreateParamsStreaming {
    if (this.#left === 0) {
      throw failTurn("MAX_ROUNDS", "the model did not come to an end");
    }
    this.#left -= 1;
    this.#answer = new ChatAnswer();
    const tools = this.#tools();
    return {
      ...parametersOf(this.#turn),
      model: this.#model,
      messages: [...this.#messages],
      stream: true,
      stream_options: { include_usage: true },
      ...(tools.length > 0 ? { tools } : {}),
    };
  }

  /** Takes a piece of the stream and gives the text in it. */
  take(chunk: ChatCompletionChunk): string {
    this.#inputTokens += chunk.usage?.prompt_tokens ?? 0;
    this.#outputTokens += chunk.usage?.completion_tokens ?? 0;
    return this.#answer.take(chunk);
  }

  /**
   * Ends an answer and gives the tool calls to make before the next request. Throws for
   * an answer that cannot be used at all.
   */
  finish(): readonly ChatCall[] {
    const { text } = this.#answer;
    const drafts = this.#answer.drafts();
    const [first] = drafts;
    if (!first) {
      this.#endOfText(text);
      return [];
    }
    if (drafts.length === 1 && first.name === this.#leave.name) {
      this.#tryToLeave(text, first);
      return [];
    }
    const message = wireCalls(text, drafts);
    this.#messages.push(message);
    const toolCalls = message.tool_calls as unknown as Json;
    this.#said.push({ role: "assistant", content: text ? [text] : [], toolCalls });
    return drafts.flatMap((draft) => this.#callOf(draft));
  }

  /** Takes the result of a tool call. */
  answered(call: ChatCall, result: Json): void {
    this.#tell(call.id, result);
  }

  /** Takes the error of a tool call; the model is told. */
  refused(call: ChatCall, error: Error): void {
    this.#tell(call.id, { error: error.message });
  }

  #tools(): ChatCompletionTool[] {
    const tools = this.#turn.tools.map(({ name, description, parameters }): ChatCompletionTool => {
      const schema = (parameters ?? { type: "object", properties: {} }) as Record<string, unknown>;
      return { type: "function", function: { name, description, parameters: schema } };
    });
    return this.#leave.possible ? [...tools, this.#leave.tool()] : tools;
  }

  #endOfText(text: string): void {
    this.#said.push({ role: "assistant", content: text });
    if (!this.#leave.possible) {
      this.#done(text, {});
      return;
    }
    const reminder = `Call ${this.#leave.name} to go on; text alone does not move the run.`;
    this.#messages.push({ role: "assistant", content: text }, { role: "user", content: reminder });
  }

  #tryToLeave(text: string, draft: Draft): void {
    const left = this.#leave.read(draft.arguments);
    if ("fault" in left) {
      // It is told, and the conversation forgets it.
      const content = JSON.stringify({ error: left.fault });
      this.#messages.push(wireCalls(text, [draft]));
      this.#messages.push({ role: "tool", tool_call_id: draft.id, content });
      return;
    }
    if (text) {
      this.#said.push({ role: "assistant", content: text });
    }
    this.#done(text, left);
  }

  #done(text: string, left: Pick<Reply, "event" | "artifacts">): void {
    this.reply = {
      ...left,
      output: text || undefined,
      messages: this.#said,
      usage: {
        inputTokens: this.#inputTokens,
        outputTokens: this.#outputTokens,
        model: this.#model,
      },
    };
  }

  /** The call of a draft; none if the model is told what is wrong with it. */
  #callOf(draft: Draft): ChatCall[] {
    const given = this.#argumentsOf(draft);
    if (typeof given === "string") {
      this.#tell(draft.id, { error: given });
      return [];
    }
    const key = this.#keys.next(draft.name, given);
    return [{ id: draft.id, tool: draft.name, arguments: given, key }];
  }

  #argumentsOf({ name, arguments: text }: Draft): ChatCall["arguments"] | string {
    const names = this.#turn.tools.map((tool) => tool.name);
    if (name === this.#leave.name) {
      return `call ${name} alone, once all other calls are answered`;
    }
    if (!names.includes(name)) {
      return `there is no tool ${JSON.stringify(name)}, only ${names.join(", ")}`;
    }
    return objectOf(text || "{}");
  }

  #tell(toolCallId: string, what: Json): void {
    const content = JSON.stringify(what);
    this.#messages.push({ role: "tool", tool_call_id: toolCallId, content });
    this.#said.push({ role: "tool", content, toolCallId });
  }
}

function parametersOf({ settings }: Turn): Partial<ChatCompletionCreateParamsStreaming> {
  const given = (settings as { parameters?: Record<string, unknown> } | undefined)?.parameters;
  const set = PARAMETERS.filter((name) => given?.[name] !== undefined && given[name] !== null);
  return Object.fromEntries(set.map((name) => [name, given?.[name]]));
}
