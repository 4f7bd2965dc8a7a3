/**
 * The client sends the bound that a call of a model reserves to the provider, and what is not reported
 * counts as the bound; against a real sidecar, in each form of an endpoint.
 */

import { createOpenAI } from "@ai-sdk/openai";
import { describe, expect, test } from "vitest";
import { stepsPack, useSidecar } from "./fixture.js";
import { chat, MODELS, type ModelAt } from "./fixture_models.js";
import {
  chatEvents,
  type Events,
  messageEvents,
  Provider,
  responseEvents,
} from "./fixture_provider.js";
import { type Json, RunStatus } from "./index.js";
import { modelHandler } from "./models.js";

const shared = useSidecar();
const BOUND = 4096;
const NAMES = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

interface Kind {
  readonly events: (text: string) => Events;
  readonly model: ModelAt;
  readonly own: string;
  readonly read: string;
  readonly said: string;
}

const KINDS: { readonly [name: string]: Kind } = {
  chat: {
    events: chatEvents,
    model: MODELS["chat completions"],
    own: "max_tokens",
    read: "prompt_tokens",
    said: "completion_tokens",
  },
  responses: {
    events: responseEvents,
    model: MODELS.responses,
    own: "max_output_tokens",
    read: "input_tokens",
    said: "output_tokens",
  },
  messages: {
    events: messageEvents,
    model: MODELS.messages,
    own: "max_tokens",
    read: "input_tokens",
    said: "output_tokens",
  },
};

type Reported = readonly [read: number | undefined, said: number | undefined];

/** Returns the events of an answer with other numbers in each place that reports usage. */
function counting({ events, read, said: message }: Kind, [had, made]: Reported): Events {
  const usage = {
    ...(had === undefined ? {} : { [read]: had }),
    ...(made === undefined ? {} : { [message]: made }),
  };
  const text = JSON.stringify(events("Again."), (name, value) =>
    name === "usage" ? usage : value,
  );
  return JSON.parse(text) as Events;
}

interface Case {
  readonly name: string;
  readonly bounds: object;
  readonly parameters?: object;
  readonly extra?: number;
  readonly toReport: Reported;
  readonly sent: number;
  readonly requests: number;
  /** The counted tokens. Undefined means the whole bound, and all of it is estimated. */
  readonly tokens?: number;
  readonly estimated?: number;
}

const budget = (max_tokens: number) => ({ max_tokens });
const few = { max_tokens: 100 };
const CASES: readonly Case[] = [
  {
    name: "no parameter",
    bounds: budget(9000),
    toReport: [30, 5000],
    sent: BOUND,
    requests: 1,
    tokens: 5030,
  },
  {
    name: "a parameter",
    bounds: budget(1600),
    parameters: few,
    toReport: [800, 100],
    sent: 100,
    requests: 1,
    tokens: 900,
  },
  {
    name: "extra",
    bounds: budget(1600),
    parameters: { max_tokens: 7 },
    extra: 100,
    toReport: [800, 100],
    sent: 100,
    requests: 1,
    tokens: 900,
  },
  {
    name: "more than the bound",
    bounds: budget(9000),
    toReport: [30, 60000],
    sent: BOUND,
    requests: 1,
    tokens: 60030,
  },
  {
    name: "no usage",
    bounds: budget(9000),
    toReport: [undefined, undefined],
    sent: BOUND,
    requests: 2,
  },
  {
    name: "what was written is not told",
    bounds: budget(5000),
    toReport: [50, undefined],
    sent: BOUND,
    requests: 1,
    tokens: 4146,
    estimated: 4146,
  },
  {
    name: "what was read is not told",
    bounds: budget(9000),
    toReport: [undefined, 5000],
    sent: BOUND,
    requests: 1,
  },
  {
    name: "it is nearly used up",
    bounds: budget(4000),
    toReport: [30, 5],
    sent: 0,
    requests: 0,
    tokens: 0,
  },
  { name: "no budget", bounds: {}, toReport: [30, 5], sent: 0, requests: 3, tokens: 105 },
  {
    name: "no budget, a parameter",
    bounds: {},
    parameters: few,
    toReport: [30, 5],
    sent: 100,
    requests: 3,
    tokens: 105,
  },
];

const sent = (body: { readonly [field: string]: unknown }) => {
  return Object.fromEntries(NAMES.filter((name) => name in body).map((name) => [name, body[name]]));
};

async function registered(id: string, parameters: object, bounds: object): Promise<string> {
  const pack = JSON.parse(stepsPack(id, {}));
  Object.assign(pack.prompts.calc, { parameters });
  Object.assign(pack.workflow.engine.x_pawl, bounds);
  await shared.client.registerPack(JSON.stringify(pack), { filename: "x.json" });
  return id;
}

const how = {
  tools: { add: (payload: Json) => payload },
  variables: { n: 1 },
  input: "Add.",
};

describe.each(Object.entries(KINDS))("by %s", (kind, form) => {
  test.each(CASES)("$name", async (one) => {
    const {
      bounds,
      parameters = {},
      extra,
      toReport: report,
      requests: request,
      tokens,
      estimated = 0,
    } = one;
    const id = `bound-${kind}-${CASES.indexOf(one)}`;
    const pack = await registered(id, parameters, { retry: 1, ...bounds });
    await using provider = await Provider.start(counting(form, report));
    const settings: { [name: string]: number } = extra ? { maxOutputTokens: extra } : {};
    const handler = modelHandler(form.model(provider.url), { maxRounds: 2, settings });
    const { run } = await shared.client.run(pack, handler, how);
    expect(provider.got.length).toBe(request);
    const most = one.sent || (kind === "messages" && request > 0 ? BOUND : 0); // It wants a number.
    for (const { body } of provider.got) {
      expect(sent(body)).toEqual(most ? { [form.own]: most } : {});
    }
    expect(run.reason).toBe(Object.keys(bounds).length > 0 ? "max_tokens" : "turn_failed");
    if (tokens !== undefined) {
      expect([run.tokens, run.estimatedTokens]).toEqual([tokens, estimated]);
    } else {
      expect(run.tokens).toBe(run.estimatedTokens);
      expect(run.tokens).toBeGreaterThan(request * BOUND);
    }
  });
});

test("an endpoint that asks for the newer name gets it", async () => {
  const pack = await registered("bound-newer", {}, budget(9000));
  const exit = { id: "l1", name: "leave_state", given: { event: "Done", artifacts: { sum: 1 } } };
  await using provider = await Provider.start(
    { status: 400, message: "Use 'max_completion_tokens' instead of 'max_tokens'." },
    chatEvents("", exit),
    chatEvents("Bye."),
  );
  const result = await shared.client.run(pack, chat(provider.url), how);
  expect(result.status).toBe(RunStatus.COMPLETED);
  const names = provider.got.map(({ body }) => Object.keys(sent(body)).join());
  expect(names).toEqual(["max_tokens", "max_completion_tokens", "max_completion_tokens"]);
});

test.each([
  ["gpt-4o", "max_tokens"],
  ["gpt-5-mini", "max_completion_tokens"],
])("chat completions of OpenAI are told of it by the name that %s takes", async (model, own) => {
  const pack = await registered(`bound-${model}`, few, {});
  await using provider = await Provider.start(404);
  const openai = createOpenAI({ baseURL: provider.url, apiKey: "k" });
  await shared.client.run(pack, modelHandler(openai.chat(model)), how);
  expect(sent(provider.got[0]?.body ?? {})).toEqual({ [own]: 100 });
});
