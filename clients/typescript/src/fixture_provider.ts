/** A local HTTP server that answers by a script, in the stream format of any provider. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { json } from "node:stream/consumers";

/** A request that the server received. */
export interface Got {
  readonly path: string;
  readonly body: { readonly [field: string]: unknown };
}

/** Events of one answer. */
export type Events = readonly { readonly type?: string; readonly [field: string]: unknown }[];

/** The refusal of a request: a status and a message. */
export interface Refusal {
  readonly status: number;
  readonly message: string;
}

/** The answer to a request: events, a status, or a function that writes the response itself. */
export type Scripted = Events | number | Refusal | ((response: ServerResponse) => void);

/** Answers the nth request with the nth of a script; the last one again. */
export class Provider {
  readonly got: Got[] = [];
  /** Headers of each answer, for example the provider's limits. */
  headers: { readonly [name: string]: string } = {};
  readonly #answers: readonly Scripted[];
  readonly #server: Server;

  private constructor(answers: readonly Scripted[]) {
    this.#answers = answers;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(...answers: readonly Scripted[]): Promise<Provider> {
    const provider = new Provider(answers);
    await new Promise<void>((resolve) => provider.#server.listen(0, "127.0.0.1", resolve));
    return provider;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = (await json(request)) as Got["body"];
    const answer = this.#answers[this.got.length] ?? this.#answers.at(-1) ?? [];
    this.got.push({ path: request.url ?? "", body });
    if (typeof answer === "number") {
      const key = request.headers.authorization ?? request.headers["x-api-key"];
      response.writeHead(answer, { "Content-Type": "application/json", ...this.headers });
      response.end(JSON.stringify({ error: { message: `no: ${key}` } }));
      return;
    }
    if ("status" in answer) {
      response.writeHead(answer.status, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ error: { message: answer.message } }));
      return;
    }
    response.writeHead(200, { "Content-Type": "text/event-stream", ...this.headers });
    if (typeof answer === "function") {
      answer(response);
      return;
    }
    send(response, answer);
    response.end(answer[0]?.type ? "" : "data: [DONE]\n\n");
  }
}

/** Writes events of a stream. */
export function send(response: ServerResponse, events: Events): void {
  for (const event of events) {
    const name = event.type ? `event: ${event.type}\n` : "";
    response.write(`${name}data: ${JSON.stringify(event)}\n\n`);
  }
}

/** A call of a tool, or of the function that leaves the state. */
export interface Calling {
  readonly id: string;
  readonly name: string;
  readonly given: object;
}

/** An answer of chat completions. */
export function chatEvents(text: string, ...calls: readonly Calling[]): Events {
  const pieces = calls.map(({ id, name, given }, index) => {
    const message = { name, arguments: JSON.stringify(given) };
    return { index, id, type: "function", function: message };
  });
  const delta = { role: "assistant", content: text, tool_calls: pieces };
  const usage = { prompt_tokens: 9, completion_tokens: 4 };
  const head = { id: "c1", object: "chat.completion.chunk", created: 1, model: "m" };
  return [
    { ...head, choices: [{ index: 0, delta, finish_reason: null }] },
    { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
    { ...head, choices: [], usage },
  ];
}

/** An answer of Responses, with a thought before it. */
export function responseEvents(text: string, ...calls: readonly Calling[]): Events {
  const output: Events[number][] = [
    { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "x" },
  ];
  if (text) {
    const content = [{ type: "output_text", text, annotations: [] }];
    output.push({ type: "message", id: "msg_1", role: "assistant", status: "completed", content });
  }
  for (const { id, name, given } of calls) {
    const call = { call_id: id, name, arguments: JSON.stringify(given) };
    output.push({ type: "function_call", id: `fc_${id}`, status: "completed", ...call });
  }
  const usage = {
    input_tokens: 9,
    input_tokens_details: { cached_tokens: 3 },
    output_tokens: 4,
    output_tokens_details: { reasoning_tokens: 2 },
    total_tokens: 13,
  };
  const response = { id: "resp_1", model: "m", created_at: 1, status: "completed" };
  const items: Events = output.flatMap((item, output_index): Events => {
    const delta = {
      type: "response.output_text.delta",
      item_id: "msg_1",
      output_index,
      delta: text,
    };
    return [
      { type: "response.output_item.added", output_index, item: { ...item, arguments: "" } },
      ...(item.type === "message" ? [delta] : []),
      { type: "response.output_item.done", output_index, item },
    ];
  });
  return [
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
    ...items,
    { type: "response.completed", response: { ...response, output, usage } },
  ];
}

/** An answer of Messages, with a thought before it. */
export function messageEvents(text: string, ...calls: readonly Calling[]): Events {
  const blocks: [start: object, delta: object][] = [
    [
      { type: "thinking", thinking: "", signature: "" },
      { type: "thinking_delta", thinking: "Hm." },
    ],
  ];
  if (text) {
    blocks.push([
      { type: "text", text: "" },
      { type: "text_delta", text },
    ]);
  }
  for (const { id, name, given } of calls) {
    const delta = { type: "input_json_delta", partial_json: JSON.stringify(given) };
    blocks.push([{ type: "tool_use", id, name, input: {} }, delta]);
  }
  const usage = { input_tokens: 5, cache_read_input_tokens: 4, output_tokens: 1 };
  const message = { id: "msg_1", type: "message", role: "assistant", model: "m", usage };
  const reason = calls.length > 0 ? "tool_use" : "end_turn";
  return [
    { type: "message_start", message: { ...message, content: [], stop_reason: null } },
    ...blocks.flatMap(([block, delta], index) => [
      { type: "content_block_start", index, content_block: block },
      { type: "content_block_delta", index, delta },
      { type: "content_block_stop", index },
    ]),
    { type: "message_delta", delta: { stop_reason: reason }, usage: { output_tokens: 4 } },
    { type: "message_stop" },
  ];
}
