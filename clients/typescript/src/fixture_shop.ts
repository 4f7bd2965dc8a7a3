/** A chat model that words each answer differently, and a shop that remembers the charges. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { json, text } from "node:stream/consumers";

const clerk = (id: string, tools: readonly string[]) => ({
  id,
  name: id,
  version: "1.0.0",
  system_template: "You serve <{{name}}>.",
  variables: [{ name: "name", type: "string", required: true }],
  tools,
});

/** A pack with two states: the first one charges three orders, and the last one charges nothing. */
export const SHOP = JSON.stringify({
  id: "shop",
  name: "Shop",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: {
    clerk: clerk("clerk", ["charge"]),
    farewell: clerk("farewell", []),
  },
  tools: {
    charge: {
      name: "charge",
      description: "Charges an order.",
      parameters: { type: "object", properties: { order: { type: "string" } } },
    },
  },
  workflow: {
    version: 2,
    entry: "serve",
    states: {
      serve: {
        prompt_task: "clerk",
        artifacts: { receipt: { type: "text/plain" } },
        on_event: { Done: "end" },
      },
      end: { prompt_task: "farewell", terminal: true },
    },
    engine: {
      x_pawl: {
        // The turn of a killed worker is free only after this time, so the lease is short.
        lease_sec: 5,
        retry: { max_attempts: 60, initial_sec: 1, max_sec: 1 },
        tools: { charge: { attempts: 60, on_unknown: "retry", timeout_sec: 60 } },
      },
    },
  },
});

/** How many orders a run charges. */
export const ORDERS = 3;

interface ChatMessage {
  readonly role: string;
  readonly content?: unknown;
  readonly tool_calls?: readonly {
    readonly id: string;
    readonly function: { arguments: string };
  }[];
}

interface Request {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly { readonly function: { readonly name: string } }[];
}

/** One request to the model: its caller, the state, the round, and the messages. */
export interface ChatRequest {
  readonly name: string;
  readonly state: "serve" | "end";
  readonly round: number;
  readonly words: readonly string[];
}

/** How the model's endpoint answers a request. */
type Outcome = "answers" | "is unavailable" | "is busy" | "cuts the stream";

/** The server of the model and of the ledger. It calls `happened` before and after each request. */
export class Shop {
  readonly requests: ChatRequest[] = [];
  /** The idempotency keys of the charges, by the name of the run. */
  readonly charged = new Map<string, Set<string>>();
  calls = 0;
  readonly #server: Server;
  readonly #happened: () => void;
  readonly #random: () => number;

  private constructor(seed: number, happened: () => void) {
    this.#happened = happened;
    this.#random = randomOf(seed);
    this.#server = createServer((request, response) => {
      void this.#serve(request, response).catch(() => response.destroy());
    });
  }

  /** Starts the server. The test kills processes in `happened`, while requests are in progress. */
  static async start(seed: number, happened: () => void): Promise<Shop> {
    const shop = new Shop(seed, happened);
    await new Promise<void>((resolve) => shop.#server.listen(0, "127.0.0.1", resolve));
    return shop;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#happened();
    if (request.url === "/ledger") {
      const { payload, idempotencyKey } = JSON.parse(await text(request));
      this.#charge(idempotencyKey);
      this.#happened();
      response.end(JSON.stringify({ charged: payload.order }));
    } else {
      this.#answer((await json(request)) as Request, response);
    }
    this.#happened();
  }

  /** Counts a charge. A repeated key is counted as a call, but charged only once. */
  #charge(key: string): void {
    this.calls += 1;
    const run = key.split("/")[0] ?? "";
    this.charged.set(run, (this.charged.get(run) ?? new Set()).add(key));
  }

  #answer(request: Request, response: ServerResponse): void {
    const prompt = requestedBy(request);
    this.requests.push(prompt);
    const outcome = this.#outcome();
    if (outcome === "is unavailable" || outcome === "is busy") {
      const status = outcome === "is busy" ? 429 : 503;
      response.writeHead(status, { "Content-Type": "application/json", "Retry-After-Ms": "10" });
      response.end(JSON.stringify({ error: { message: outcome } }));
      return;
    }
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const delta of answerTo(prompt, this.requests.length)) {
      response.write(`data: ${JSON.stringify(chunkOf({ delta }))}\n\n`);
    }
    if (outcome === "cuts the stream") {
      response.write("", () => response.destroy());
      return;
    }
    response.write(`data: ${JSON.stringify(chunkOf({ delta: {}, finish_reason: "stop" }))}\n\n`);
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    response.write(`data: ${JSON.stringify({ ...chunkOf(), choices: [], usage })}\n\n`);
    response.end("data: [DONE]\n\n");
  }

  #outcome(): Outcome {
    const drawn = this.#random();
    if (drawn < 0.1) {
      return "is unavailable";
    }
    if (drawn < 0.15) {
      return "is busy";
    }
    return drawn < 0.25 ? "cuts the stream" : "answers";
  }
}

function chunkOf(choice: object = {}): object {
  const choices = [{ index: 0, finish_reason: null, ...choice }];
  return { id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices };
}

function requestedBy({ messages, tools = [] }: Request): ChatRequest {
  const entry = messages.filter(({ role }) => role === "assistant");
  const words = entry.map((message) => wordsOf(message));
  const name = /<(.*)>/.exec(String(messages[0]?.content))?.[1] ?? "";
  const exits = tools.some((tool) => tool.function.name === "leave_state");
  return { name, state: exits ? "serve" : "end", round: entry.length + 1, words };
}

/** Returns the text of an assistant message and the arguments of its calls. */
function wordsOf({ content, tool_calls: calls = [] }: ChatMessage): string {
  return [content ?? "", ...calls.map((call) => call.function.arguments)].join("|");
}

/** Returns the answer of a round. `count` makes the words of each answer different. */
function answerTo({ state, round }: ChatRequest, count: number): object[] {
  const order = (number: number) =>
    ["charge", { order: `order #${number}, take ${count}` }] as const;
  const rounds = [[order(1), order(2)], [order(3)]];
  const left = ["leave_state", { event: "Done", artifacts: { receipt: `take ${count}` } }] as const;
  if (state === "end") {
    return [{ role: "assistant", content: `Bye, take ${count}.` }];
  }
  const calls = rounds[round - 1] ?? [left];
  const pieces = calls.map(([name, given], index) => {
    const message = { name, arguments: JSON.stringify(given) };
    return {
      tool_calls: [{ index, id: `c${count}_${index}`, type: "function", function: message }],
    };
  });
  return [{ role: "assistant", content: `Take ${count}. ` }, ...pieces];
}

/** Returns a generator of random numbers from 0 to 1. Equal seeds give equal numbers. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
