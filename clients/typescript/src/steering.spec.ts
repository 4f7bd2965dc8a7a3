/** Messages of people to active runs, and how people stop runs, against a real sidecar. */

import { describe, expect, test } from "vitest";
import { all, Gate, STEPS, useSidecar, useWorkers } from "./fixture.js";
import { MODELS } from "./fixture_models.js";
import {
  chatEvents,
  messageEvents,
  Provider,
  responseEvents,
  type Scripted,
  send,
} from "./fixture_provider.js";
import {
  type Json,
  RecordKind,
  type Reply,
  type Run,
  RunStatus,
  SteerWhen,
  type ToolCall,
  type Turn,
  textOf,
} from "./index.js";
import { modelHandler } from "./models.js";
import { Sidecar } from "./testing.js";

const shared = useSidecar();
const serve = useWorkers();

const VENDORS = {
  chat: {
    events: chatEvents,
    by: (url: string) => modelHandler(MODELS["chat completions"](url)),
  },
  responses: {
    events: responseEvents,
    by: (url: string) => modelHandler(MODELS.responses(url)),
  },
  messages: {
    events: messageEvents,
    by: (url: string) => modelHandler(MODELS.messages(url)),
  },
};

const ADD = { id: "a1", name: "add", given: { a: 1, b: 2 } };
const EXIT = { id: "l1", name: "leave_state", given: { event: "Done" } };
const variables = { n: 1 };

/** How often a text is in each request of a provider. */
const answer = (provider: Provider, text: string) =>
  provider.got.map(({ body }) => JSON.stringify(body).split(text).length - 1);

async function steered(run: Run) {
  const records = await all(run.records({ kinds: [RecordKind.STEERED] }));
  return records.map(({ body }) => (body.case === "steered" ? body.value : undefined));
}

test.each(Object.entries(VENDORS))(
  "a model hears by %s what is said while its tool runs",
  async (_, { events, by }) => {
    const answers = [events("I add.", ADD), events("", EXIT), events("All done.")];
    await using provider = await Provider.start(...answers);
    const run = await shared.client.open("steps", { variables });
    const add = async () => {
      await run.steer("Go left.");
      return 3;
    };
    const result = await run.drive(by(provider.url), { tools: { add } });
    expect([result.run.status, result.errors]).toEqual([RunStatus.COMPLETED, []]);
    expect(answer(provider, "Go left.")).toEqual([0, 1, 0]);
    expect(await steered(run)).toMatchObject([
      { text: "Go left.", when: SteerWhen.NEXT_MODEL_CALL },
    ]);
  },
);

test("now ends the handler and the next turn begins with it; a stop ends it, and the run waits", async () => {
  const started = [new Gate(), new Gate(), new Gate()];
  const over: Gate[] = [new Gate(), new Gate()];
  const conversations: string[][] = [];
  const worker = shared.client.worker({ packs: ["self-correcting"] });
  worker.prompt("worker", async (turn: Turn): Promise<Reply | undefined> => {
    const at = conversations.push(turn.messages.map(({ parts }) => textOf(parts))) - 1;
    if (turn.terminal || at > 1) {
      return turn.terminal ? undefined : { event: "Success" };
    }
    started[at]?.open();
    await new Promise((resolve) => turn.signal.addEventListener("abort", resolve));
    over[at]?.open();
    throw turn.signal.reason;
  });
  serve(worker);
  const run = await shared.client.start("self-correcting");
  await started[0]?.opened;
  const { turn } = await run.steer("No, right.", { when: SteerWhen.NOW });
  expect(turn?.attempt).toBe(1);
  await over[0]?.opened;
  await started[1]?.opened;
  const stopped = await run.stop("enough");
  expect(stopped.status).toBe(RunStatus.WAITING);
  await over[1]?.opened;
  await run.sendInput("Go on.");
  expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
  expect(conversations[1]?.at(-1)).toBe("No, right.");
  expect(conversations[2]?.slice(-2)).toEqual(["No, right.", "Go on."]);
  const records = await all(run.records({ kinds: [RecordKind.STOPPED] }));
  expect(records.map(({ body }) => body.case === "stopped" && body.value.note)).toEqual([
    "",
    "enough",
  ]);
});

describe("a call that is under way when its run is stopped", () => {
  test("is aborted, and the model that goes on has an answer to it", async () => {
    const answers = [chatEvents("I add.", ADD), chatEvents("", EXIT), chatEvents("All done.")];
    await using provider = await Provider.start(...answers);
    const called = new Gate();
    const aborted = new Gate();
    const worker = shared.client.worker({ packs: ["steps"] });
    worker.prompt("calc", VENDORS.chat.by(provider.url));
    worker.tool("add", async (_payload: Json, call: ToolCall) => {
      called.open();
      await new Promise((resolve) => call.signal.addEventListener("abort", resolve));
      aborted.open();
      throw call.signal.reason;
    });
    serve(worker);
    const run = await shared.client.start("steps", { variables });
    await called.opened;
    expect((await run.stop()).status).toBe(RunStatus.WAITING);
    await aborted.opened;
    await run.sendInput("Leave it, and be done.");
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    const [, second] = provider.got;
    const messages = second?.body.messages as { role: string; tool_call_id?: string }[];
    expect(messages.filter(({ role }) => role === "tool")).toMatchObject([{ tool_call_id: "a1" }]);
    expect(answer(provider, "CANCELLED_BY_USER")[1]).toBe(1);
    expect(answer(provider, "Leave it, and be done.")[1]).toBe(1);
  });
});

test("what was said is heard although the sidecar is killed before", async () => {
  await using sidecar = await Sidecar.start({ packs: [STEPS], allowTools: ["add"] });
  using client = sidecar.client();
  const request = new Gate();
  const killed = new Gate();
  // This answer is to a request that was sent before the message, and does not contain it.
  const first: Scripted = async (response) => {
    request.open();
    await killed.opened;
    send(response, chatEvents("Never mind."));
    response.end("data: [DONE]\n\n");
  };
  const second = [chatEvents("I add.", ADD), chatEvents("", EXIT), chatEvents("All done.")];
  const answers = [first, ...second];
  await using provider = await Provider.start(...answers);
  const run = await client.open("steps", { variables });
  const driven = run.drive(VENDORS.chat.by(provider.url), { tools: { add: () => 3 } });
  await request.opened;
  await run.steer("Go left.");
  await sidecar.restart();
  killed.open();
  expect((await driven).run.status).toBe(RunStatus.COMPLETED);
  expect(answer(provider, "Go left.")).toEqual([0, 1, 1, 0]);
  expect(await steered(run)).toHaveLength(1);
});
