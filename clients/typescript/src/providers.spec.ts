/** The same conversation by each provider's package, against a real sidecar. */

import { beforeAll, describe, expect, test } from "vitest";
import { all, stepsPack, useSidecar } from "./fixture.js";
import { KEY, MODELS, type ModelAt } from "./fixture_models.js";
import {
  type Calling,
  chatEvents,
  type Events,
  messageEvents,
  Provider,
  responseEvents,
} from "./fixture_provider.js";
import {
  Awaiting,
  type Handler,
  type Json,
  PawlError,
  RecordKind,
  RunStatus,
  type StepCall,
  textOf,
} from "./index.js";
import { type ModelOptions, modelHandler } from "./models.js";

const shared = useSidecar();
const BLOB = `blob:sha256:${"0".repeat(64)}`;
const add = (payload: Json) => {
  const { a, b } = payload as { a: number; b: number };
  return a + b;
};

/** A provider: how it is asked, and what an answer of its looks like. */
interface Kind {
  readonly events: (text: string, ...calls: readonly Calling[]) => Events;
  readonly handler: (url: string, options?: ModelOptions) => Handler;
  readonly usage: object;
}

const by = (model: ModelAt) => (url: string, options?: ModelOptions) =>
  modelHandler(model(url), options);
const chats = { events: chatEvents, usage: { inputTokens: 9, outputTokens: 4, cachedTokens: 0 } };
const used = { inputTokens: 9, outputTokens: 4, cachedTokens: 3, reasoningTokens: 2 };
const responses = { events: responseEvents, usage: used };
const messages = {
  events: messageEvents,
  usage: { inputTokens: 9, outputTokens: 4, cachedTokens: 4 },
};
const FORMS: { readonly [form: string]: Omit<Kind, "handler"> } = { chats, responses, messages };
const KINDS: { readonly [name: string]: Kind } = Object.fromEntries(
  Object.entries(MODELS).map(([name, model]) => {
    const form = FORMS[name.split(" ")[0] === "chat" ? "chats" : (name.split(" ")[0] ?? "")];
    return [name, { ...(form as Omit<Kind, "handler">), handler: by(model) }];
  }),
);

const EXIT = { id: "l1", name: "leave_state", given: { event: "Done", artifacts: { sum: 12 } } };
const calls: readonly Calling[] = [
  { id: "a1", name: "add", given: { a: 2, b: 3 } },
  { id: "a2", name: "add", given: { a: 3, b: 4 } },
];

const prompt = (settings: object) => {
  const pack = JSON.parse(stepsPack("settings", {}));
  Object.assign(pack.prompts.calc, settings);
  return pack;
};

describe.each(Object.entries(KINDS))("by %s", (name, { events, handler, usage }) => {
  test("a model calls tools, leaves and ends", async () => {
    const answers = [events("I add.", ...calls), events("", EXIT), events("Bye.")];
    await using provider = await Provider.start(...answers);
    const options = { tools: { add }, variables: { n: 1 }, input: "Add." };
    const result = await shared.client.run("steps", handler(provider.url), options);
    expect(result.errors).toEqual([]);
    expect([result.status, result.run.toolCalls]).toEqual([RunStatus.COMPLETED, 2]);
    expect([result.artifacts, textOf(result.output)]).toEqual([{ sum: 12 }, "Bye."]);
    expect(result.run.tokens).toBe(3 * 13);
    const run = shared.client.attach(result.run.runId);
    const records = await all(run.records({ kinds: [RecordKind.STEP_RESOLVED] }));
    const used = records.flatMap(({ body }) => {
      return body.case === "stepResolved" && body.value.answer ? [body.value.usage] : [];
    });
    expect(used[0]).toMatchObject(usage);
    const { messages, input: items } = provider.got[1]?.body ?? {};
    expect(messages ?? items).toMatchSnapshot(`second request of ${name}`);
    const view = await run.modelStep(1);
    expect([view.system, view.messages.at(0)?.role]).toEqual(["Add 1.", "user"]);
  });

  test("text is an answer to the person in a chat, and the model may ask", async () => {
    const asks = { id: "q1", name: "ask_user", given: { question: "Which?" } };
    const answers = [events("Hello!"), events("", asks), events("", EXIT), events("Bye.")];
    await using provider = await Provider.start(...answers);
    const talk = handler(provider.url, { chat: true });
    const run = await shared.client.open("steps", { variables: { n: 1 }, input: "Hi" });
    expect(textOf((await run.drive(talk)).output)).toBe("Hello!");
    expect((await run.info()).awaiting).toBe(Awaiting.INPUT);
    await run.sendInput("Go on");
    expect(textOf((await run.drive(talk)).output)).toBe("Which?");
    await run.sendInput("That one");
    expect((await run.drive(talk)).status).toBe(RunStatus.COMPLETED);
    expect(JSON.stringify(provider.got[2]?.body)).toMatch(/Hello!.*Go on.*That one/);
  });

  test("a model is never asked with a system prompt alone", async () => {
    await using provider = await Provider.start(events("", EXIT), events("Bye."));
    await shared.client.run("steps", handler(provider.url), { variables: { n: 1 } });
    const { messages, input } = provider.got[0]?.body ?? {};
    expect(JSON.stringify(messages ?? input)).toContain("Begin.");
  });

  test("images and documents go as the provider wants them", async () => {
    await using provider = await Provider.start(events("", EXIT), events("Bye."));
    const data = new Uint8Array([1, 2, 3, 4]);
    const input = [
      "Look.",
      { data, mediaType: "image/png" },
      { data, mediaType: "application/pdf", filename: "a.pdf" },
      { uri: "https://example.com/cat.png", mediaType: "image/png" },
    ];
    const options = { variables: { n: 1 }, input };
    const result = await shared.client.run("steps", handler(provider.url), options);
    expect(result.errors).toEqual([]);
    const { messages, input: items } = provider.got[0]?.body ?? {};
    expect(messages ?? items).toMatchSnapshot(`media of ${name}`);
  });

  test.each([
    ["media type", { data: new Uint8Array([1]), mediaType: "application/x-tar" }],
    ["a part of image/png as the address blob:", { uri: BLOB, mediaType: "image/png" }],
  ])("%s, which it cannot take, fails the turn by name", async (what, part) => {
    await using provider = await Provider.start(events("", EXIT), events("Bye."));
    const input = [part];
    const options = { variables: { n: 1 }, input };
    const result = await shared.client.run("steps", handler(provider.url), options);
    expect(result.status).toBe(RunStatus.FAILED);
    expect(result.errors).toMatchObject([{ reason: "MEDIA_UNSUPPORTED" }]);
    expect(String(result.errors[0])).toContain(what);
    expect(provider.got).toEqual([]);
  });

  test("a key that is not taken is in no record", async () => {
    await using provider = await Provider.start(401);
    const result = await shared.client.run("steps", handler(provider.url), { variables: { n: 1 } });
    expect(result.errors).toMatchObject([{ reason: "MODEL_401", retryable: false }]);
    expect(String(result.errors[0])).toContain("[key]");
    const run = shared.client.attach(result.run.runId);
    expect(JSON.stringify(await all(run.records()), plainly)).not.toContain(KEY);
  });

  test("an answer is JSON that fits, or the model is told", async () => {
    const schema = { type: "object", properties: { id: { type: "integer" } }, required: ["id"] };
    const answers = ["sure!", '{"id": "x"}', '{"id": 9007199254740993}'];
    const texts = answers.map((text) => events(text));
    const leaving = { ...EXIT, given: { ...EXIT.given, output: { id: 1 } } };
    await using provider = await Provider.start(events("", leaving), ...texts);
    const talk = handler(provider.url, { output: schema });
    const result = await shared.client.run("steps", talk, { variables: { n: 1 } });
    expect([result.status, result.errors]).toEqual([RunStatus.COMPLETED, []]);
    const contents = result.output.map(({ content }) => content);
    expect(contents).toEqual([{ case: "json", value: '{"id":9007199254740993}' }]);
    const [first, second, third, fourth] = provider.got.map(({ body }) => JSON.stringify(body));
    expect(first).not.toContain("json_schema");
    expect(second).toContain(JSON.stringify(schema).slice(1, -1));
    expect(third).toContain("The answer does not fit the schema: it is no JSON.");
    expect(fourth).toContain("at /id: must be integer");
    const view = await shared.client.attach(result.run.runId).modelStep(2);
    expect(view.parameters).toEqual({ response_schema: schema });
  });

  test("a stream that is cut is asked for again", async () => {
    const cut = events("Half an ans").slice(0, -2);
    await using provider = await Provider.start(cut, events("", EXIT), events("Bye."));
    const result = await shared.client.run("steps", handler(provider.url), { variables: { n: 1 } });
    expect([result.status, result.errors]).toEqual([RunStatus.COMPLETED, []]);
    expect(provider.got).toHaveLength(3);
  });
});

const plainly = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);

describe("settings of the pack", () => {
  const { events, handler } = KINDS["chat completions"] as Kind;

  beforeAll(async () => {
    const settings = {
      parameters: { temperature: 0.5, max_tokens: 100 },
      tool_policy: { tool_choice: "required", max_tool_calls_per_turn: 20 },
      model_overrides: { m: { system_template_prefix: "Be brief. ", parameters: { top_p: 0.9 } } },
    };
    await shared.client.registerPack(JSON.stringify(prompt(settings)), { filename: "s.json" });
    const none = { ...prompt({ tool_policy: { tool_choice: "none" } }), id: "no-tools" };
    await shared.client.registerPack(JSON.stringify(none), { filename: "n.json" });
    const odd = { ...prompt({ parameters: { top_k: 2 } }), id: "odd" };
    await shared.client.registerPack(JSON.stringify(odd), { filename: "o.json" });
  });

  test("reach the model", async () => {
    await using provider = await Provider.start(events("", EXIT), events("Bye."));
    const providerOptions = { endpoint: { user: "u1" } };
    const model = handler(provider.url, { settings: { providerOptions } });
    const result = await shared.client.run("settings", model, { variables: { n: 1 } });
    expect(result.status).toBe(RunStatus.COMPLETED);
    expect(provider.got[0]?.body).toMatchObject({
      temperature: 0.5,
      top_p: 0.9,
      max_tokens: 100,
      tool_choice: "required",
      user: "u1",
      messages: [{ role: "system", content: "Be brief. Add 1." }, { role: "user" }],
    });
  });

  test("leave the way out alone", async () => {
    await using provider = await Provider.start(events("", EXIT), events("Bye."));
    await shared.client.run("no-tools", handler(provider.url), { variables: { n: 1 } });
    const tools = provider.got[0]?.body.tools as { function: { name: string } }[];
    expect(tools.map((tool) => tool.function.name)).toEqual(["leave_state"]);
  });

  test("with a variable that nobody renders are refused by name", async () => {
    const override = { m: { system_template_suffix: " {{mood}}" } };
    const pack = { ...prompt({ model_overrides: override }), id: "moody" };
    await shared.client.registerPack(JSON.stringify(pack), { filename: "m.json" });
    await using provider = await Provider.start(events("", EXIT));
    const result = await shared.client.run("moody", handler(provider.url), { variables: { n: 1 } });
    expect(result.errors).toMatchObject([{ reason: "OVERRIDE_UNSUPPORTED" }]);
    expect(provider.got).toEqual([]);
  });

  test("that the provider has not are refused by name", async () => {
    await using provider = await Provider.start(events("", EXIT));
    const result = await shared.client.run("odd", handler(provider.url), { variables: { n: 1 } });
    expect(result.status).toBe(RunStatus.FAILED);
    expect(String(result.errors[0])).toContain("parameters.top_k: endpoint.chat has no such");
  });
});

test("what makes no sense is refused by name", () => {
  const { handler } = KINDS["chat completions"] as Kind;
  const url = "http://127.0.0.1:1";
  expect(() => handler(url, { settings: { tools: [] } })).toThrow("settings.tools");
  const odd = { output: { type: "nothing" } };
  expect(() => handler(url, odd)).toThrow("output: its schema is invalid");
  expect(() => handler(url, { output: [] as never })).toThrow(
    "output: must be a JSON Schema, as an object",
  );
  const mistyped = { output: { calc: { type: "nothing" } } };
  expect(() => handler(url, mistyped)).toThrow("output.calc: its schema is invalid");
  const bare = {
    "~standard": { version: 1, vendor: "old", validate: () => ({ value: 1 }) },
  } as const;
  expect(() => handler(url, { output: bare })).toThrow("of old cannot make a JSON Schema");
});

test("an artifact beside the event is told to the model as its mistake", async () => {
  const { events, handler } = KINDS["chat completions"] as Kind;
  const beside = { ...EXIT, given: { event: "Done", sum: 12 } };
  const unknown = { ...EXIT, given: { event: "Done", mood: "fine" } };
  const answers = [events("", beside), events("", unknown), events("", EXIT), events("Bye.")];
  await using provider = await Provider.start(...answers);
  const result = await shared.client.run("steps", handler(provider.url), { variables: { n: 1 } });
  expect(result.artifacts).toEqual({ sum: 12 });
  expect(JSON.stringify(provider.got[1]?.body)).toContain("it belongs under artifacts");
  expect(JSON.stringify(provider.got[2]?.body)).toContain("mood: no property of leave_state");
});

describe("tool calls of one answer", () => {
  const { events, handler } = KINDS["chat completions"] as Kind;
  const many = Array.from({ length: 12 }, (_, at) => {
    return { id: `m${at}`, name: "add", given: { a: at, b: 0 } };
  });

  test.each([
    ["all at once", 5, 5],
    ["as many as may be pending", 12, 8],
  ])("are made %s", async (_, count, most) => {
    await using provider = await Provider.start(
      events("", ...many.slice(0, count)),
      events("", EXIT),
      events("Bye."),
    );
    let open = 0;
    let highest = 0;
    const release: (() => void)[] = [];
    const together = async (payload: Json) => {
      open += 1;
      highest = Math.max(highest, open);
      // No call continues before as many calls are pending as may be.
      await new Promise<void>((resolve) => {
        release.push(resolve);
        if (open === most || release.length === count) {
          for (const go of release) {
            go();
          }
        }
      });
      open -= 1;
      return add(payload);
    };
    const options = { tools: { add: together }, variables: { n: 1 } };
    const result = await shared.client.run("steps", handler(provider.url), options);
    expect([result.errors, result.run.toolCalls, highest]).toEqual([[], count, most]);
    type Messages = readonly { readonly role: string; readonly content: string }[];
    const messages = (provider.got[1]?.body.messages ?? []) as Messages;
    const report = messages.filter(({ role }) => role === "tool").map(({ content }) => content);
    expect(report).toEqual(Array.from({ length: count }, (_, at) => String(at)));
  });

  test("may be made by a handler of one's own", async () => {
    const batch: StepCall[] = [
      { tool: "add", payload: { a: 1, b: 1 }, key: "one" },
      { tool: "forbidden", key: "two" },
    ];
    const seen: unknown[] = [];
    await shared.client.run(
      "steps",
      async (turn) => {
        if (!turn.terminal) {
          for (const { step, denial } of await turn.calls(batch)) {
            seen.push(step?.result ?? denial?.code);
          }
        }
        return turn.terminal ? {} : { event: "Done" };
      },
      { tools: { add }, variables: { n: 1 } },
    );
    expect(seen).toEqual([2, "TOOL_NOT_ALLOWED"]);
  });
});

test("a state that people move as well is a chat by itself", async () => {
  const { events, handler } = KINDS["chat completions"] as Kind;
  const pack = prompt({});
  pack.id = "hybrid";
  pack.workflow.states.calc.orchestration = "hybrid";
  await shared.client.registerPack(JSON.stringify(pack), { filename: "h.json" });
  await using provider = await Provider.start(events("Hello!"), events("", EXIT), events("Bye."));
  const run = await shared.client.open("hybrid", { variables: { n: 1 }, input: "Hi" });
  expect(textOf((await run.drive(handler(provider.url))).output)).toBe("Hello!");
  expect((await run.info()).awaiting).toBe(Awaiting.INPUT);
  await run.sendInput("Done");
  expect((await run.drive(handler(provider.url))).status).toBe(RunStatus.COMPLETED);
});

test.each([
  ["it says", "poor", { parameters: { max_tokens: 1000 } }],
  ["nobody says", "poorer", {}],
])(
  "a budget that does not hold the output that %s ends the run before the call",
  async (_, id, settings) => {
    const { events, handler } = KINDS["chat completions"] as Kind;
    const pack = prompt(settings);
    pack.id = id;
    pack.workflow.engine.x_pawl.max_tokens = 500;
    await shared.client.registerPack(JSON.stringify(pack), { filename: `${id}.json` });
    await using provider = await Provider.start(events("", EXIT));
    const result = await shared.client.run(id, handler(provider.url), { variables: { n: 1 } });
    expect([result.status, result.reason]).toEqual([RunStatus.BUDGET_EXHAUSTED, "max_tokens"]);
    expect(PawlError.is(result.errors[0], "RUN_TERMINAL")).toBe(true);
    expect(provider.got).toEqual([]);
  },
);
