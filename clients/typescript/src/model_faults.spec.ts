/** Faults of the endpoints of models and their consequences, against a real sidecar. */

import { describe, expect, test } from "vitest";
import { all, Gate, serving, stepsPack, useSidecar } from "./fixture.js";
import { chat, KEY, MODELS } from "./fixture_models.js";
import { chatEvents, type Events, messageEvents, Provider, send } from "./fixture_provider.js";
import { type Json, PawlError, RecordKind, RunStatus, textOf } from "./index.js";
import { modelHandler } from "./models.js";

const shared = useSidecar();
const EXIT = { id: "l1", name: "leave_state", given: { event: "Done", artifacts: { sum: 12 } } };
const variables = { n: 1 };

const plainly = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);

/** Codes of the failed attempts of calls, in order, and what they consumed. */
async function failures(runId: string): Promise<unknown[]> {
  const run = shared.client.attach(runId);
  const records = await all(run.records({ kinds: [RecordKind.STEP_RESOLVED] }));
  return records.flatMap(({ body }) => {
    return body.case === "stepResolved" && body.value.error ? [body.value.error.code] : [];
  });
}

describe("an answer", () => {
  test("with a call that has no place in the record is paid for and asked again", async () => {
    const nameless = { ...EXIT, name: "x".repeat(300) };
    const answers = [chatEvents("", nameless), chatEvents("", EXIT), chatEvents("Bye.")];
    await using provider = await Provider.start(...answers);
    const result = await shared.client.run("steps", chat(provider.url), { variables });
    expect([result.status, result.errors]).toEqual([RunStatus.COMPLETED, []]);
    expect(await failures(result.run.runId)).toEqual(["ANSWER_INVALID"]);
    expect(result.run.tokens).toBe(3 * 13);
  });

  test("whose counts are none costs its bound", async () => {
    const odd = { prompt_tokens: 1.5, completion_tokens: -3 };
    const broken = chatEvents("", EXIT).map((event) =>
      event.usage ? { ...event, usage: odd } : event,
    );
    await using provider = await Provider.start(broken, chatEvents("Bye."));
    const result = await shared.client.run("steps", chat(provider.url), { variables });
    const { status, run } = result;
    expect([status, run.tokens - run.estimatedTokens]).toEqual([RunStatus.COMPLETED, 13]);
    expect(run.estimatedTokens).toBeGreaterThan(4096);
  });

  test("of a provider's own failure has a code that the record takes", async () => {
    const response = {
      id: "resp_1",
      model: "m",
      status: "failed",
      output: [],
      error: { code: `naïve ${KEY} `.repeat(40), message: `no ${KEY}` },
    };
    await using provider = await Provider.start([
      { type: "response.failed", sequence_number: 1, response },
    ]);
    const handler = modelHandler(MODELS.responses(provider.url));
    const result = await shared.client.run("steps", handler, { variables });
    expect(result.errors).toMatchObject([{ reason: "MODEL_500" }, { reason: "MODEL_500" }]);
    expect(String(result.errors[0])).toContain("no [key]");
    const run = shared.client.attach(result.run.runId);
    expect(JSON.stringify(await all(run.records()), plainly)).not.toContain(KEY);
  });

  test("whose pieces lack what the package promises is read all the same", async () => {
    const [first, ...rest] = chatEvents("", EXIT) as unknown as [
      { choices: [{ delta: { tool_calls: [{ index?: number }] } }] },
      ...Events,
    ];
    delete first.choices[0].delta.tool_calls[0].index;
    const events = [{ id: "c1", object: "chat.completion.chunk" }, first, ...rest] as Events;
    await using provider = await Provider.start(events, chatEvents("Bye."));
    const result = await shared.client.run("steps", chat(provider.url), { variables });
    expect([result.status, result.errors]).toEqual([RunStatus.COMPLETED, []]);
  });

  test("that never ends is cut at its bound and not asked again", async () => {
    const [head] = chatEvents("x".repeat(1 << 20));
    await using provider = await Provider.start((response) => {
      const more = () => {
        while (!response.destroyed && response.write(`data: ${JSON.stringify(head)}\n\n`)) {}
        response.once("drain", more);
      };
      more();
    });
    const result = await shared.client.run("steps", chat(provider.url), { variables });
    expect(result.status).toBe(RunStatus.FAILED);
    expect(result.errors).toMatchObject([{ reason: "ANSWER_TOO_LARGE", retryable: false }]);
    expect(provider.got).toHaveLength(1);
  });

  test("that comes to no end in its time is asked again", async () => {
    const pack = JSON.parse(stepsPack("slow-model", {}));
    pack.workflow.engine.x_pawl.model_calls = { timeout_sec: 1 };
    await shared.client.registerPack(JSON.stringify(pack), { filename: "s.json" });
    const silent = () => undefined;
    await using provider = await Provider.start(silent, chatEvents("", EXIT), chatEvents("Bye."));
    const result = await shared.client.run("slow-model", chat(provider.url), { variables });
    expect([result.status, provider.got.length]).toEqual([RunStatus.COMPLETED, 3]);
    // This process reports the timeout, or the sidecar does if this process is slow.
    const report = expect.stringMatching(/^(MODEL_TIMEOUT|DEADLINE_EXCEEDED)$/);
    expect(await failures(result.run.runId)).toEqual([report]);
  });

  test("with a megabyte of thought is recorded, or refused by its size", async () => {
    const events = messageEvents("", EXIT).map((event) => {
      const thought = { type: "thinking_delta", thinking: "x".repeat(1 << 20) };
      const { type } = (event.delta ?? {}) as { type?: string };
      return type === "thinking_delta" ? { ...event, delta: thought } : event;
    });
    await using provider = await Provider.start(events, messageEvents("Bye."));
    const handler = modelHandler(MODELS.messages(provider.url));
    const result = await shared.client.run("steps", handler, { variables });
    expect(result.errors).toMatchObject([{ reason: "ANSWER_TOO_LARGE", retryable: false }]);
    // What it consumed until then is counted.
    expect(result.run.tokens).toBeGreaterThan(0);
  });

  test("of a model that no one serves fails the turn for good", async () => {
    await using provider = await Provider.start(404);
    const result = await shared.client.run("steps", chat(provider.url), { variables });
    expect(result.status).toBe(RunStatus.FAILED);
    expect(result.errors).toMatchObject([{ reason: "MODEL_404", retryable: false }]);
  });
});

describe("by messages", () => {
  test("arguments that come whole are taken", async () => {
    const whole = messageEvents("", EXIT).map((event) => {
      const { type, ...block } = (event.content_block ?? {}) as { type?: string };
      const given = { ...block, type, input: EXIT.given };
      const { type: kind } = (event.delta ?? {}) as { type?: string };
      const nothing = { type: "input_json_delta", partial_json: "" };
      const replaced = type === "tool_use" ? { ...event, content_block: given } : event;
      return kind === "input_json_delta" ? { ...replaced, delta: nothing } : replaced;
    });
    await using provider = await Provider.start(whole, messageEvents("Bye."));
    const handler = modelHandler(MODELS.messages(provider.url));
    const result = await shared.client.run("steps", handler, { variables });
    expect([result.status, result.artifacts]).toEqual([RunStatus.COMPLETED, { sum: 12 }]);
  });

  test("the provider's own tools are told again as they were", async () => {
    const add = { id: "a1", name: "add", given: { a: 1, b: 2 } };
    const searched = messageEvents("", { id: "s1", name: "web_search", given: { q: "x" } }, add);
    const own = searched.map((event) => {
      const block = event.content_block as { id?: string } | undefined;
      const used = { ...block, type: "server_tool_use" };
      return block?.id === "s1" ? { ...event, content_block: used } : event;
    });
    await using provider = await Provider.start(own, messageEvents("", EXIT), messageEvents("."));
    const handler = modelHandler(MODELS.messages(provider.url));
    const tools = { add: () => 3 };
    const result = await shared.client.run("steps", handler, { variables, tools });
    expect(result.status).toBe(RunStatus.COMPLETED);
    const text = JSON.stringify(provider.got[1]?.body.messages);
    expect(text).toContain(
      '{"type":"server_tool_use","id":"s1","name":"web_search","input":{"q":"x"}}',
    );
  });
});

describe("whole numbers of more than 53 bits", () => {
  const id = 2n ** 53n + 1n;
  const add = `{"a": ${id}, "b": 0}`;

  test("reach tools, the record and the model as they are", async () => {
    const [head, ...rest] = chatEvents("", { id: "a1", name: "add", given: {} }) as unknown as [
      { choices: [{ delta: { tool_calls: [{ function: { arguments: string } }] } }] },
      ...Events,
    ];
    head.choices[0].delta.tool_calls[0].function.arguments = add;
    const answers = [[head, ...rest] as Events, chatEvents("", EXIT), chatEvents("Bye.")];
    await using provider = await Provider.start(...answers);
    const seen: Json[] = [];
    const tools = {
      add: (payload: Json) => {
        seen.push(payload);
        return { found: (payload as { a: bigint }).a };
      },
    };
    const result = await shared.client.run("steps", chat(provider.url), { variables, tools });
    expect([result.status, result.errors]).toEqual([RunStatus.COMPLETED, []]);
    expect(seen).toEqual([{ a: id, b: 0 }]);
    const report = JSON.stringify(provider.got[1]?.body.messages);
    expect(report).toContain(`{\\"found\\":${id}}`);
    expect(report).toContain(`{\\"a\\": ${id}, \\"b\\": 0}`);
  });

  test("reach a worker, the model and artifacts as they are", async () => {
    const number = { event: "Done", artifacts: { sum: 0 } };
    const [head, ...rest] = chatEvents("", { ...EXIT, given: number }) as unknown as [
      { choices: [{ delta: { tool_calls: [{ function: { arguments: string } }] } }] },
      ...Events,
    ];
    const text = head.choices[0].delta.tool_calls[0].function;
    text.arguments = text.arguments.replace("0", String(id));
    const call = { id: "a1", name: "add", given: { a: 1, b: 2 } };
    const answers = [chatEvents("", call), [head, ...rest] as Events, chatEvents("Bye.")];
    await using provider = await Provider.start(...answers);
    await shared.client.registerPack(stepsPack("exact", {}), { filename: "e.json" });
    const worker = shared.client.worker({ packs: ["exact"] }).prompt("*", chat(provider.url));
    await using _ = serving(worker.tool("add", () => [id, 1.5]));
    const run = await shared.client.start("exact", { variables });
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(JSON.stringify(provider.got[1]?.body.messages)).toContain(`"[${id},1.5]"`);
    expect(await run.artifacts()).toEqual({ sum: id });
  });
});

describe("what people see of an attempt that failed", () => {
  test("is taken back in the same execution", async () => {
    await shared.client.registerPack(stepsPack("shown", {}), { filename: "s.json" });
    const call = { id: "a1", name: "add", given: { a: 1, b: 2 } };
    const half = new Gate();
    const turns: number[] = [];
    let resets = 0;
    await using provider = await Provider.start(
      chatEvents("I add. ", call),
      (response) => {
        send(response, chatEvents("Half an ans").slice(0, 1));
        void half.opened.then(() => response.destroy());
      },
      chatEvents("All of it.", EXIT),
      chatEvents("Bye."),
    );
    const worker = shared.client.worker({ packs: ["shown"] }).prompt("*", chat(provider.url));
    await using _ = serving(worker.tool("add", () => 3));
    const run = await shared.client.start("shown", { variables });
    let text = "";
    for await (const event of run.events()) {
      turns.push(...(event.kind === "text" ? [event.turnSeq] : []));
      if (event.turnSeq !== turns[0]) {
        continue;
      }
      text = event.kind === "reset" ? "" : text + (event.kind === "text" ? event.text : "");
      resets += event.kind === "reset" ? 1 : 0;
      if (text.endsWith("Half an ans")) {
        half.open();
      }
      if (text.endsWith("All of it.")) {
        break;
      }
    }
    expect(text).toBe("I add. All of it.");
    expect(resets).toBeGreaterThan(0);
  });

  test("has characters whole whose halves came one by one", async () => {
    await shared.client.registerPack(stepsPack("halves", {}), { filename: "h.json" });
    const half = (content: string) => {
      const [event] = chatEvents(content);
      return event as Events[number];
    };
    const pieces = [half("So \ud83d"), half("\ude00."), ...chatEvents("", EXIT)];
    await using provider = await Provider.start(pieces, chatEvents("Bye."));
    const worker = shared.client.worker({ packs: ["halves"] }).prompt("*", chat(provider.url));
    const run = await shared.client.start("halves", { variables });
    await using _ = serving(worker);
    let text = "";
    for await (const event of run.events()) {
      text += event.kind === "text" ? event.text : "";
      if (text.includes(".")) {
        break;
      }
    }
    expect(text).toContain("So \u{1f600}.");
  });

  test("that it cannot be shown fails the turn, once the answer is recorded", async () => {
    const answers = [chatEvents("I leave.", EXIT), chatEvents("Bye.")];
    await using provider = await Provider.start(...answers);
    let left = 1;
    const model = chat(provider.url);
    const result = await shared.client.run(
      "steps",
      (turn) => {
        turn.output = async () => {
          if (left > 0) {
            left -= 1;
            throw new PawlError("request", "no room");
          }
        };
        return model(turn);
      },
      { variables },
    );
    expect(result.errors.map(String)).toEqual([expect.stringContaining("no room")]);
    // The next attempt is answered from the record.
    expect([result.status, textOf(result.output)]).toEqual([RunStatus.COMPLETED, "Bye."]);
    expect(await failures(result.run.runId)).toEqual([]);
    expect(provider.got).toHaveLength(2);
  });
});
