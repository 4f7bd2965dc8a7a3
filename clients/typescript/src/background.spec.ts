/** Responses that are made in the background are paid for once, whoever is lost meanwhile. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Gate, STEPS, useSidecar } from "./fixture.js";
import { Program } from "./fixture_program.js";
import { type Events, responseEvents, send } from "./fixture_provider.js";
import { RecordKind, type Run, RunStatus } from "./index.js";
import { responsesHandler } from "./openai.js";

const shared = useSidecar({ packs: [STEPS] });
const LEAVE = { id: "l1", name: "leave_state", given: { event: "Done", artifacts: { sum: 12 } } };
let program: Program;

beforeAll(() => {
  program = new Program();
});

afterAll(() => program.remove());

/** How the first response stands when it is asked for by its id. */
type Standing = "completed" | "in_progress" | "failed" | "gone";

/** Begins one response and says no more; the next ones come whole. */
class Background {
  created = 0;
  readonly fetched: string[] = [];
  readonly begun = new Gate();
  /** True: the first stream is cut, not silent. */
  cuts = false;
  readonly #standing: Standing;
  readonly #server: Server;

  private constructor(standing: Standing) {
    this.#standing = standing;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(standing: Standing): Promise<Background> {
    const made = new Background(standing);
    await new Promise<void>((resolve) => made.#server.listen(0, "127.0.0.1", resolve));
    return made;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    if (request.method === "GET") {
      this.fetched.push(request.url ?? "");
      this.#fetch(request.url?.includes("stream=true") ?? false, response);
      return;
    }
    expect(JSON.parse(body)).toMatchObject({ background: true, store: true, stream: true });
    this.created += 1;
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    if (this.created > 1) {
      send(response, this.created > 2 ? responseEvents("Bye.") : this.#second());
      response.end();
      return;
    }
    send(response, [...LEFT.slice(0, 1), { type: "response.output_text.delta", delta: "Hal" }]);
    this.begun.open();
    if (this.cuts) {
      response.write("", () => response.destroy());
    }
  }

  #second(): Events {
    return this.#standing === "completed" || this.#standing === "in_progress"
      ? responseEvents("Bye.")
      : LEFT;
  }

  #fetch(streamed: boolean, response: ServerResponse): void {
    if (streamed) {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      send(response, LEFT);
      response.end();
      return;
    }
    const whole = LEFT.at(-1)?.response as object;
    response.writeHead(this.#standing === "gone" ? 404 : 200, {
      "Content-Type": "application/json",
    });
    response.end(JSON.stringify({ ...whole, status: this.#standing }));
  }
}

const LEFT = responseEvents("I leave.", LEAVE);

async function noted(run: Run): Promise<void> {
  for await (const record of run.transitions({ kinds: [RecordKind.MODEL_NOTED] })) {
    if (record.body.case === "modelNoted" && record.body.value.responseId === "resp_1") {
      return;
    }
  }
}

test.each([
  ["completed", ["/v1/responses/resp_1"], 2],
  ["in_progress", ["/v1/responses/resp_1", "/v1/responses/resp_1?stream=true"], 2],
  ["failed", ["/v1/responses/resp_1"], 3],
  ["gone", ["/v1/responses/resp_1"], 3],
] as const)(
  "a worker that is killed in the midst of one that is %s then",
  async (standing, fetched, created) => {
    await using endpoint = await Background.start(standing);
    const args = ["background", shared.sidecar.address, endpoint.url];
    const first = program.spawn(...args);
    const run = await shared.client.start("steps", { variables: { n: 1 } });
    await endpoint.begun.opened;
    await noted(run);
    first.kill("SIGKILL");
    await once(first, "exit");
    const second = program.spawn(...args);
    const { run: info } = await run.wait({ waitMs: 60_000 });
    second.kill("SIGKILL");
    expect(info?.status).toBe(RunStatus.COMPLETED);
    expect(await run.artifacts()).toEqual({ sum: 12 });
    expect([endpoint.fetched, endpoint.created]).toEqual([fetched, created]);
  },
  90_000,
);

test("a stream that is cut is gone on with in the same execution", async () => {
  await using endpoint = await Background.start("completed");
  endpoint.cuts = true;
  const client = new OpenAI({ baseURL: `${endpoint.url}/v1`, apiKey: "none", maxRetries: 0 });
  const handler = responsesHandler(client, { model: "m", background: true });
  const result = await shared.client.run("steps", handler, { variables: { n: 1 } });
  expect([result.status, result.errors]).toEqual([RunStatus.COMPLETED, []]);
  expect([endpoint.fetched, endpoint.created]).toEqual([["/v1/responses/resp_1"], 2]);
  const view = await shared.client.attach(result.run.runId).modelStep(1);
  expect(view.parameters).toMatchObject({ background: true });
});

test("what the handler says itself is no further field", () => {
  const client = new OpenAI({ baseURL: "http://127.0.0.1:1", apiKey: "none" });
  const options = { model: "m", background: true, extra: { store: false } };
  expect(() => responsesHandler(client, options)).toThrow("extra.store: what the handler says");
});
