/** Every reader of a run gets the same events, during the run and after it. */

import { readFileSync } from "node:fs";
import { afterEach, describe, expect, test, vi } from "vitest";
import { PawlClient as PageClient } from "./browser.js";
import { all, Gate, SELF_CORRECTING, STEPS, stepsPack, useSidecar } from "./fixture.js";
import { Cuttable } from "./fixture_cuttable.js";
import { Screen } from "./fixture_screen.js";
import {
  PawlClient,
  type RunEvent,
  RunStatus,
  StepDecision,
  type Turn,
  type Worker,
} from "./index.js";
import { Sidecar } from "./testing.js";

const shared = useSidecar({
  packs: [SELF_CORRECTING, STEPS],
  allowTools: ["add"],
  flags: ["--http=127.0.0.1:0"],
});
const working: Worker[] = [];

afterEach(async () => {
  await Promise.all(working.splice(0).map((worker) => worker.stop()));
});

/** Starts a run whose first turn is executed by `write`. */
async function written(write: (turn: Turn) => Promise<void>, client = shared.client) {
  const run = await client.start("steps", { variables: { n: 1 } });
  const worker = client.worker().prompt("calc", async (turn) => {
    if (turn.terminal) {
      return;
    }
    await write(turn);
    return { event: "Done" };
  });
  working.push(worker);
  worker.serve().catch(() => undefined);
  return run;
}

/** Returns the text that a reader shows after these events, by turn. */
function texts(events: readonly RunEvent[]): string[] {
  const shown = new Map<number, string>();
  for (const event of events) {
    if (event.kind === "reset") {
      shown.set(event.turnSeq, "");
    } else if (event.kind === "text") {
      shown.set(event.turnSeq, (shown.get(event.turnSeq) ?? "") + event.text);
    }
  }
  return [...shown.values()];
}

/** Returns an event as a short text for comparisons. */
function summarize(event: RunEvent): string {
  const names = ["text", "to", "result", "tool", "name", "role", "outcome", "on", "reason"];
  const values = Object.entries(event).filter(([name, value]) => names.includes(name) && value);
  const [first] = names.flatMap((name) => values.filter(([key]) => key === name));
  return [event.kind, ...(first ? [first[1]] : [])].join(" ");
}

/** Thinks, says something, calls a tool and writes an artifact. */
async function talk(turn: Turn) {
  if (turn.terminal) {
    await turn.output("Bye.");
    return { output: "Bye." };
  }
  await turn.reasoning("hm");
  await turn.output("One and two ");
  const sum = await turn.step("add", { a: 1, b: 2 });
  await turn.output(`is ${sum}.`);
  return { event: "Done", artifacts: { sum }, output: "One and two is 3." };
}

const tools = { add: () => 3 };
const variables = { n: 1 };
const REPORTED = [
  "transition calc",
  "turn_began",
  "reasoning hm",
  "text One and two ",
  "tool_call add",
  "tool_result 3",
  "text is 3.",
  "message assistant",
  "turn_ended completed",
  "transition end",
  "artifact sum",
  "turn_began",
  "text Bye.",
  "message assistant",
  "turn_ended completed",
  "end completed",
];

describe("a run that is driven", () => {
  test("gives its events, then its result, and the same to those who come later", async () => {
    const driven = shared.client.run("steps", talk, { tools, variables });
    const events = await all(driven);
    const { run, status } = await driven;
    expect(events.map(summarize)).toEqual(REPORTED);
    expect(status).toBe(RunStatus.COMPLETED);
    const later = await all(shared.client.attach(run.runId).events());
    expect(texts(later)).toEqual(texts(events));
    const records = (of: readonly RunEvent[]) => {
      return of.map(summarize).filter((one) => !/^(text|reasoning)/.test(one));
    };
    expect(records(later)).toEqual(records(events));
  });

  test("tells onOutput, and waits for it", async () => {
    const report: string[] = [];
    const onOutput = async (event: RunEvent) => {
      await Promise.resolve();
      report.push(summarize(event));
    };
    const run = await shared.client.open("steps", { variables });
    await run.drive(talk, { tools, onOutput });
    expect(report).toEqual(REPORTED);
  });

  test("is given up where onOutput throws, or the loop is left", async () => {
    const waiting = async (turn: Turn) => {
      await turn.output("I wait.");
      await new Promise((resolve) => turn.signal.addEventListener("abort", resolve));
      return {};
    };
    let runId = "";
    const onOutput = (event: RunEvent) => {
      runId = event.runId;
      if (event.kind === "text") {
        throw new Error("no screen");
      }
    };
    const driving = shared.client.run("steps", waiting, { variables, onOutput });
    await expect(driving).rejects.toThrow("no screen");
    const run = shared.client.attach(runId);
    const retry = run.drive(waiting);
    for await (const { kind } of retry) {
      if (kind === "turn_began") {
        break;
      }
    }
    await expect(retry).rejects.toThrow("ended before the run");
    expect((await run.drive(talk, { tools })).status).toBe(RunStatus.COMPLETED);
  });

  test("has the first error of its handler in the loop and in the promise", async () => {
    const bad = (() => "no reply") as unknown as typeof talk;
    const driven = shared.client.run("steps", bad, { variables });
    await expect(all(driven)).rejects.toMatchObject({ reason: "BAD_REPLY" });
    await expect(driven).rejects.toMatchObject({ reason: "BAD_REPLY" });
  });

  test("resets the turn that is executed again, and no other", async () => {
    const driven = shared.client.run(
      "steps",
      async (turn) => {
        if (turn.terminal) {
          return { output: "End." };
        }
        const first = turn.visit === 1;
        await turn.output(first ? "First." : turn.attempt === 1 ? "Half" : "Second.");
        if (!first && turn.attempt === 1) {
          throw new Error("no");
        }
        return { event: first ? "Again" : "Done" };
      },
      { variables },
    );
    const events = await all(driven);
    expect(events.filter(({ kind }) => kind === "reset")).toHaveLength(1);
    expect(texts(events)).toEqual(["First.", "Second.", "End."]);
  });

  test("says what it waits for: a decision, with its digest", async () => {
    const pack = stepsPack("held", { tools: { add: { approve: "payload.a > 0.0" } } });
    await shared.client.registerPack(pack, { filename: "held.json" });
    const run = await shared.client.open("held", { variables });
    const waited: string[] = [];
    for await (const event of run.drive(talk, { tools })) {
      if (event.kind === "wait") {
        waited.push(`${event.on} ${event.tool}`);
        await run.decideStep(event.step, event.digest, StepDecision.APPROVE);
      }
    }
    expect(waited).toEqual(["approval add"]);
  });
});

describe("the events of a run", () => {
  test("come while the turn is under way, and end with the run", async () => {
    const seen = new Gate();
    const run = await written(async (turn) => {
      await turn.output("grüße ");
      await seen.opened;
      await turn.output("all");
    });
    const events: RunEvent[] = [];
    for await (const event of run.events()) {
      events.push(event);
      if (event.kind === "text") {
        seen.open();
      }
    }
    expect(texts(events)).toEqual(["grüße all"]);
    expect(summarize(events.at(-1) as RunEvent)).toBe("end completed");
  });

  test("go on behind any cursor, also by a page", async () => {
    const { run } = await shared.client.run("steps", talk, { tools, variables });
    const page = new PageClient({ baseUrl: `http://${shared.sidecar.http}` });
    const whole = await all(shared.client.attach(run.runId).events());
    for (const [at, { cursor: after }] of whole.entries()) {
      const rest = await all(shared.client.attach(run.runId).events({ after }));
      expect(rest.map(summarize)).toEqual(whole.slice(at + 1).map(summarize));
    }
    expect(await all(page.attach(run.runId).events({ follow: false }))).toEqual(whole);
  });

  test("are read once over a connection that is cut", async () => {
    const transport = new Cuttable(shared.sidecar.address);
    const client = new PawlClient({ address: await transport.listen() });
    const pieces = Array.from({ length: 60 }, (_, index) => `${index} `);
    const start = new Gate();
    let read = start;
    const run = await written(async (turn) => {
      for (const piece of pieces) {
        // The next piece is written once the one before was read.
        await read.opened;
        read = new Gate();
        await turn.output(piece);
      }
      await read.opened;
    });
    start.open();
    const seen: string[] = [];
    try {
      for await (const event of client.attach(run.id).events()) {
        expect(event.kind).not.toBe("reset");
        if (event.kind === "text") {
          seen.push(event.text);
          if (seen.length % 6 === 0) {
            transport.cut();
          }
          read.open();
        }
      }
    } finally {
      client.close();
      transport.close();
    }
    expect(seen).toEqual(pieces);
  });

  test("make the history", async () => {
    const report = await shared.client.run("steps", talk, { tools, variables, input: "Go." });
    const messages = await shared.client.attach(report.run.runId).messages();
    const summary = messages.map(({ role, parts }) => `${role} ${parts[0]?.content.value}`);
    expect(summary).toEqual(["user Go.", "assistant One and two is 3.", "assistant Bye."]);
  });
});

test("the example of the documentation shows a chat", async () => {
  const text = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");
  const source = text("./fixture_screen.ts").replace("./index.js", "pawl-client");
  expect(text("../../../docs/guides/events.md")).toContain(`\`\`\`ts\n${source}\`\`\``);
  const screen = new Screen();
  const onOutput = screen.show.bind(screen);
  const message = vi.spyOn(console, "log").mockImplementation(() => undefined);
  await shared.client.run("steps", talk, { tools, variables, onOutput });
  expect(message.mock.calls[0]).toEqual(["One and two is 3.\nBye."]);
  message.mockRestore();
});

test("goes on over a killed sidecar, to which the worker sends again what was before", async () => {
  await using sidecar = await Sidecar.start({ packs: [STEPS] });
  const client = sidecar.client();
  const seen = new Gate();
  const retry = new Gate();
  const run = await written(async (turn) => {
    await turn.output("before ");
    await retry.opened;
    await turn.output("after the restart");
    await seen.opened;
  }, client);
  try {
    const events: RunEvent[] = [];
    let restarted = false;
    for await (const event of run.events()) {
      // After the restart, the sidecar may send text again. A reset comes before that text.
      events.push(event);
      if (event.kind !== "text") {
        continue;
      }
      if (restarted) {
        seen.open();
      } else {
        restarted = true;
        await sidecar.restart();
        retry.open();
      }
    }
    expect(texts(events)).toEqual(["before after the restart"]);
  } finally {
    await Promise.all(working.splice(0).map((worker) => worker.stop()));
    client.close();
  }
});
