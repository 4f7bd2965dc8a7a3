/** A local HTTP server that speaks the wire format of chat completions, from recordings. */

import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { json } from "node:stream/consumers";

/** A request of chat completions, as far as specs look at it. */
export interface ChatRequest {
  readonly messages: readonly { readonly role: string; readonly content?: unknown }[];
  readonly tools?: readonly {
    readonly type: string;
    readonly function: { readonly name: string };
  }[];
  readonly [field: string]: unknown;
}

/** A recorded answer: a status with a body, or the pieces of a stream. */
interface Recording {
  readonly status?: number;
  readonly body?: unknown;
  readonly chunks?: readonly unknown[];
  /** The connection breaks after the last piece. */
  readonly broken?: boolean;
  /** The connection stays open after the last piece, and nothing comes any more. */
  readonly hanging?: boolean;
}

const file = new URL("../testdata/recordings.json", import.meta.url);
const recordings = JSON.parse(readFileSync(file, "utf8")) as { [name: string]: Recording };

/** Answers each request with the next recording by name, the last one again and again. */
export class Endpoint {
  readonly requests: ChatRequest[] = [];
  readonly #names: string[];
  readonly #server: Server;
  #ended = 0;
  #onEnd: (() => void) | undefined;

  private constructor(names: readonly string[]) {
    this.#names = [...names];
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(...names: string[]): Promise<Endpoint> {
    const endpoint = new Endpoint(names);
    await new Promise<void>((resolve) => endpoint.#server.listen(0, "127.0.0.1", resolve));
    return endpoint;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}/v1`;
  }

  /** Resolves when the caller has closed the connection of an answer. */
  abandoned(): Promise<void> {
    return this.#ended > 0
      ? Promise.resolve()
      : new Promise((resolve) => {
          this.#onEnd = resolve;
        });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests.push((await json(request)) as ChatRequest);
    const name = (this.#names.length > 1 ? this.#names.shift() : this.#names[0]) ?? "";
    const recording = recordings[name];
    if (!recording) {
      throw new RangeError(`no recording ${name}`);
    }
    response.on("close", () => {
      this.#ended += response.writableFinished ? 0 : 1;
      this.#onEnd?.();
    });
    if (recording.status !== undefined) {
      response.writeHead(recording.status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(recording.body));
    } else {
      play(recording, response);
    }
  }
}

function play(recording: Recording, response: ServerResponse): void {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  for (const chunk of recording.chunks ?? []) {
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  }
  if (recording.broken) {
    response.write("", () => response.destroy());
  } else if (!recording.hanging) {
    response.end("data: [DONE]\n\n");
  }
}
