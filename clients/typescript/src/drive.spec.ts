/** Driving runs: a client's own worker serves them, over one stream. */

import type { Transport } from "@connectrpc/connect";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Connection } from "./connection.js";
import { all, Gate, QUIET, STEPS, stepsPack, useSidecar } from "./fixture.js";
import { Cuttable } from "./fixture_cuttable.js";
import {
  type Handlers,
  PawlClient,
  PawlError,
  type Run as PublicRun,
  RecordKind,
  RunStatus,
  type Tools,
  type Turn,
} from "./index.js";
import { nodeTransport } from "./node_transport.js";
import { Run } from "./run.js";
import { Sidecar } from "./testing.js";

const shared = useSidecar();
const open = () => shared.client.open("steps", { variables: { n: 1 } });

/** Asks for a step in its first state, writes, and is done. */
async function calc(turn: Turn) {
  if (turn.terminal) {
    return { output: "end" };
  }
  await turn.setArtifacts({ log: "begun" });
  const sum = await turn.step<number>("add", { a: 1, b: 2 });
  return { event: "Done", artifacts: { sum } };
}

const add = ({ a, b }: never) => (a as number) + (b as number);
const tools = { add } as never;
const exit = (turn: Turn) => (turn.terminal ? {} : { event: "Done" });

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) {
    close();
  }
});

/** A connection to the real sidecar whose calls are counted, and whose answers can be held up. */
function connected(address = shared.sidecar.address) {
  const { transport: below, sessions } = nodeTransport({ address });
  closing.push(() => sessions.abort());
  const calls: string[] = [];
  let next: { come: Gate; go: Gate } | undefined;
  /** Holds up the answers of the next stream. `come` opens when its first answer is there. */
  const hold = () => {
    next = { come: new Gate(), go: new Gate() };
    return next;
  };
  const transport: Transport = {
    unary: (...call) => {
      calls.push(call[0].name);
      return below.unary(...call);
    },
    stream: async (...call) => {
      calls.push(call[0].name);
      const held = next;
      next = undefined;
      const response = await below.stream(...call);
      return held ? { ...response, message: heldUp(response.message, held) } : response;
    },
  };
  return { connection: new Connection(transport, { log: QUIET }), calls, sessions, hold };
}

async function* heldUp<T>(messages: AsyncIterable<T>, { come, go }: { come: Gate; go: Gate }) {
  for await (const message of messages) {
    come.open();
    await go.opened;
    yield message;
  }
}

/** Another process, as far as the sidecar knows. */
function another(address = shared.sidecar.address): PawlClient {
  const client = new PawlClient({ address, log: QUIET });
  closing.push(() => client.close());
  return client;
}

/** What an error says. */
const text = (error: unknown) =>
  PawlError.is(error) ? [error.kind, error.reason] : [(error as Error).name];

/** Returns the kinds of a run's records about transitions, steps and failed turns, in order. */
async function happened(run: PublicRun) {
  const { TRANSITION, STEP_REQUESTED, STEP_RESOLVED, TURN_FAILED } = RecordKind;
  const kinds = [TRANSITION, STEP_REQUESTED, STEP_RESOLVED, TURN_FAILED];
  return (await all(run.records({ kinds }))).map(({ body }) => body.case);
}

const CALC = ["transition", "stepRequested", "stepResolved", "transition"];

describe("driven runs", () => {
  test("share one stream, which ends with the last of them", async () => {
    const { connection, calls, sessions } = connected();
    const runs = await Promise.all([open(), open(), open()]);
    const results = await Promise.all(
      runs.map((run) => new Run(connection, run.id).drive(calc, { tools })),
    );
    expect(results.map(({ status }) => status)).toEqual(Array(3).fill(RunStatus.COMPLETED));
    expect(results.map(({ artifacts }) => artifacts)).toEqual(
      Array(3).fill({ log: "begun", sum: 3 }),
    );
    expect(calls).toEqual(["Work", "GetRun", "GetRun", "GetRun"]);
    // No call is running, so the process may end.
    await expect.poll(() => sessions.inFlight).toBe(0);
    await new Run(connection, (await open()).id).drive(calc, { tools });
    expect(calls.filter((name) => name === "Work")).toHaveLength(2);
  });

  test("are a thousand over one stream, whatever a worker holds at most", async () => {
    const { connection, calls } = connected();
    const runs = await Promise.all(Array.from({ length: 1000 }, open));
    const all = new Gate();
    let started = 0;
    const handler = async (turn: Turn) => {
      started += 1;
      if (started === runs.length) {
        all.open();
      }
      await all.opened;
      return exit(turn);
    };
    const drives = runs.map((run) => new Run(connection, run.id).drive(handler));
    const states = new Set((await Promise.all(drives)).map(({ status }) => status));
    expect([...states]).toEqual([RunStatus.COMPLETED]);
    expect(calls.filter((name) => name === "Work")).toHaveLength(1);
  });

  test("make the other calls of their handlers without it", async () => {
    const { connection, calls } = connected();
    const run = new Run(connection, (await open()).id);
    await run.drive(async (turn) => {
      if (!turn.terminal) {
        await run.sendInput("from outside");
      }
      return exit(turn);
    });
    expect(calls).toEqual(["Work", "SendInput", "GetRun"]);
  });

  test("go on over a new stream when the link is cut, and nothing happens twice", async () => {
    const link = new Cuttable(shared.sidecar.address);
    closing.push(() => link.close());
    const client = another(await link.listen());
    const runs = await Promise.all(Array.from({ length: 8 }, open));
    let turns = 0;
    let calls = 0;
    const counted = {
      add: (payload: never) => {
        calls += 1;
        return add(payload);
      },
    } as never;
    const drive = (run: PublicRun) =>
      client.attach(run.id).drive(
        (turn) => {
          turns += 1;
          if (turns === 4) {
            // The connection breaks while the other runs send.
            link.cutAfter = 200;
          }
          return calc(turn);
        },
        { tools: counted },
      );
    const results = await Promise.all(runs.map(drive));
    expect(link.cuts).toBe(1);
    expect(results.flatMap(({ errors }) => errors)).toEqual([]);
    expect([turns >= 16, calls]).toEqual([true, 8]);
    for (const run of runs) {
      expect(await happened(run)).toEqual(CALC);
    }
  });

  test("go on with what they do when the sidecar is killed", async () => {
    await using sidecar = await Sidecar.start({
      packs: [STEPS],
      allowTools: ["add"],
    });
    const client = another(sidecar.address);
    let turns = 0;
    const result = await client.run(
      "steps",
      async (turn) => {
        turns += 1;
        if (!turn.terminal) {
          await sidecar.restart();
        }
        return calc(turn);
      },
      { tools, variables: { n: 1 } },
    );
    expect([result.status, result.errors, turns]).toEqual([RunStatus.COMPLETED, [], 2]);
  });

  test("show their output to those who read it", async () => {
    const run = await open();
    const seen = new Gate();
    const driving = run.drive(async (turn) => {
      if (!turn.terminal) {
        await turn.output("grüße");
        await seen.opened;
      }
      return exit(turn);
    });
    const shown: string[] = [];
    for await (const event of another().attach(run.id).events()) {
      if (event.kind === "text") {
        shown.push(event.text);
        seen.open();
      }
    }
    expect(shown).toEqual(["grüße"]);
    expect((await driving).status).toBe(RunStatus.COMPLETED);
  });
});

/** A handler that waits until it is stopped, and the attempts that it executed. */
function waiting() {
  const started = new Gate();
  const stopped = new Gate();
  const attempts: number[] = [];
  const handler = async (turn: Turn) => {
    attempts.push(turn.attempt);
    turn.signal.addEventListener("abort", () => stopped.open());
    started.open();
    await stopped.opened;
    return exit(turn);
  };
  return { begun: started, stopped, attempts, handler };
}

/** Drives a run that another client abandoned, and checks that no attempt was used up. */
async function goesOn(run: PublicRun) {
  const attempts: number[] = [];
  const driven = another()
    .attach(run.id)
    .drive((turn) => {
      attempts.push(turn.attempt);
      return exit(turn);
    });
  expect([(await driven).status, attempts]).toEqual([RunStatus.COMPLETED, [1, 1]]);
}

describe("a drive", () => {
  test("ends with its signal, and another goes on", async () => {
    const { begun: starting, stopped, handler } = waiting();
    const run = await open();
    const over = new AbortController();
    const driven = run.drive(handler, { signal: over.signal }).catch(text);
    await starting.opened;
    over.abort();
    expect(await driven).toEqual(["cancelled", ""]);
    await stopped.opened;
    await goesOn(run);
    expect(await run.drive(handler, { signal: over.signal }).catch(text)).toEqual([
      "cancelled",
      "",
    ]);
  });

  test("ends with its client, and another goes on", async () => {
    const { begun: startedRun, stopped, handler } = waiting();
    const run = await open();
    const client = another();
    const driven = client.attach(run.id).drive(handler).catch(text);
    await startedRun.opened;
    client.close();
    expect(await driven).toEqual(["cancelled", ""]);
    await stopped.opened;
    await goesOn(run);
  });

  test("ends when another process drives the run", async () => {
    const { begun, stopped, handler } = waiting();
    const requestId = "taken-over";
    const options = { requestId, variables: { n: 1 } };
    const driven = shared.client.run("steps", handler, options).catch(text);
    await begun.opened;
    expect((await another().run("steps", exit, options)).status).toBe(RunStatus.COMPLETED);
    expect(await driven).toEqual(["conflict", "RUN_TAKEN_OVER"]);
    await stopped.opened;
  });

  test("is the only one of its client", async () => {
    const { begun, stopped, handler } = waiting();
    const run = await open();
    const driven = run.drive(handler);
    await begun.opened;
    expect(await run.drive(handler).catch(text)).toEqual(["conflict", "RUN_DRIVEN"]);
    stopped.open();
    expect((await driven).status).toBe(RunStatus.COMPLETED);
  });

  test("that is given up while its stream registers again is released", async () => {
    const transport = new Cuttable(shared.sidecar.address);
    closing.push(() => transport.close());
    const { connection, hold } = connected(await transport.listen());
    const [given, kept] = [waiting(), waiting()];
    const run = await open();
    const over = new AbortController();
    const options = { signal: over.signal };
    const driven = new Run(connection, run.id).drive(given.handler, options).catch(text);
    const other = new Run(connection, (await open()).id).drive(kept.handler);
    await Promise.all([given.begun.opened, kept.begun.opened]);
    const answer = hold();
    transport.cut();
    await answer.come.opened;
    over.abort();
    expect(await driven).toEqual(["cancelled", ""]);
    answer.go.open();
    // While a worker serves the run, GetTurn is refused.
    await expect.poll(() => run.turn().then(() => "free", text)).toBe("free");
    await goesOn(run);
    kept.stopped.open();
    expect((await other).status).toBe(RunStatus.COMPLETED);
    expect(kept.attempts).toEqual([1, 1]);
  });

  test("that is given up while its stream registers ends the stream", async () => {
    const { connection, hold, sessions } = connected();
    const answer = hold();
    const over = new AbortController();
    const run = new Run(connection, (await open()).id);
    const driven = run.drive(exit, { signal: over.signal }).catch(text);
    await answer.come.opened;
    over.abort();
    expect(await driven).toEqual(["cancelled", ""]);
    await expect.poll(() => sessions.inFlight).toBe(0);
    answer.go.open();
  });

  test("ends with its client, whose other calls end while a tool is at work", async () => {
    const run = await open();
    const client = another();
    const [called, stopped, through] = [new Gate(), new Gate(), new Gate()];
    const tool = async (payload: never, { signal }: { signal: AbortSignal }) => {
      signal.addEventListener("abort", () => stopped.open());
      called.open();
      await through.opened;
      return add(payload);
    };
    const turns: unknown[] = [];
    const handler = (turn: Turn) => {
      turn.signal.addEventListener("abort", () => turns.push(turn.signal.reason));
      return calc(turn);
    };
    const driven = client.attach(run.id).drive(handler, { tools: { add: tool } as never });
    const waited = client.attach(run.id).wait();
    await called.opened;
    client.close();
    expect(turns).toHaveLength(1);
    expect(await Promise.all([driven.catch(text), waited.catch(text)])).toEqual([
      ["cancelled", ""],
      ["cancelled", ""],
    ]);
    await stopped.opened;
    const going = another().attach(run.id).drive(calc, { tools });
    through.open();
    expect((await going).artifacts.sum).toBe(3);
    expect(await happened(run)).toEqual(CALC);
  });

  test.each<[string, boolean, unknown, (client: PawlClient, over: AbortController) => void]>([
    ["is given up asks its tool to stop, which goes on to its end", false, 3, (_, o) => o.abort()],
    [
      "is given up asks its tool to stop, which says that it ended",
      true,
      "WORKER_LOST",
      (_, o) => o.abort(),
    ],
    ["ends with its client asks its tool to stop, which goes on", false, 3, (c) => c.close()],
    [
      "ends with its client asks its tool to stop, which says that it ended",
      true,
      "WORKER_LOST",
      (c) => c.close(),
    ],
  ])("that %s", async (_, throws, report, end) => {
    const run = await open();
    const client = another();
    const over = new AbortController();
    const called = new Gate();
    let calls = 0;
    const tool = async (payload: never, { signal }: { signal: AbortSignal }) => {
      calls += 1;
      called.open();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      if (throws) {
        signal.throwIfAborted();
      }
      return add(payload);
    };
    const options = { tools: { add: tool } as never, signal: over.signal };
    const driven = client.attach(run.id).drive(calc, options).catch(text);
    await called.opened;
    end(client, over);
    expect(await driven).toEqual(["cancelled", ""]);
    const seen: unknown[] = [];
    const { status } = await run.drive(
      async (turn) => {
        if (!turn.terminal) {
          seen.push(
            await turn.step("add", { a: 1, b: 2 }).catch((error: PawlError) => error.reason),
          );
        }
        return exit(turn);
      },
      { tools: { add: () => ++calls } as never },
    );
    expect([status, calls]).toEqual([RunStatus.COMPLETED, 1]);
    const [resolved] = await all(run.records({ kinds: [RecordKind.STEP_RESOLVED] }));
    const unknown = resolved?.body.case === "stepResolved" && resolved.body.value.unknown;
    expect(unknown).toBe(throws);
    if (!throws) {
      expect(seen).toEqual([report]);
    }
  });

  test("that is lost with its tool at work has an outcome that the pack decides", async () => {
    const tools = { add: { attempts: 1, on_unknown: "escalate" } };
    await using sidecar = await Sidecar.start({
      allowTools: ["add"],
      flags: ["--step-grace=100ms"],
    });
    const [first, second] = [another(sidecar.address), another(sidecar.address)];
    await first.registerPack(stepsPack("paying", { tools }));
    const options = { requestId: "one", variables: { n: 1 } };
    const called = new Gate();
    let calls = 0;
    const pay = () => {
      calls += 1;
      called.open();
      return new Promise(() => undefined);
    };
    const give = { ...options, tools: { add: pay } as never };
    const driven = first.run("paying", calc, give).catch(text);
    await called.opened;
    first.close();
    expect(await driven).toEqual(["cancelled", ""]);
    const { status } = await second.run("paying", calc, give);
    expect([status, calls]).toEqual([RunStatus.ESCALATED, 1]);
  });

  test("of what is not to be driven is refused", async () => {
    const started = await shared.client.start("steps", { variables: { n: 1 } });
    expect(await started.drive(exit).catch(text)).toEqual(["permission", "TURN_LEASED"]);
    await started.cancel();
    const unknown = shared.client.attach("01J9Z3NDEKTSV4RRFFQ69G5FAV");
    expect(await unknown.drive(exit).catch(text)).toEqual(["not_found", "RUN_NOT_FOUND"]);
    const absent = new PawlClient({ address: "127.0.0.1:1", log: QUIET, retryForMs: 0 });
    closing.push(() => absent.close());
    const error = await absent
      .attach(started.id)
      .drive(exit)
      .catch((thrown) => thrown);
    expect(text(error)).toEqual(["unavailable", ""]);
  });
});

describe("a mistake of the program", () => {
  const mistakes: [string, unknown, unknown, string][] = [
    ["a handler that returns text", () => "text", {}, "BAD_REPLY"],
    ["a handler that returns another key", () => ({ events: "Done" }), {}, "BAD_REPLY"],
    ["a prompt without handler", { other: exit }, {}, "NO_HANDLER"],
    ["an event that there is not", () => ({ event: "Nope" }), {}, "UNKNOWN_EVENT"],
    [
      "an artifact that there is not",
      () => ({ event: "Done", artifacts: { no: 1 } }),
      {},
      "UNDECLARED_ARTIFACT",
    ],
    [
      "an artifact of another type",
      () => ({ event: "Done", artifacts: { log: new Uint8Array(1) } }),
      {},
      "ARTIFACT_TYPE",
    ],
    ["a handler that takes more than a turn", (_: unknown, more: unknown) => more, {}, "TypeError"],
    ["a handler that is none", "calc", {}, "TypeError"],
    ["a map with a handler that is none", { calc: 3 }, {}, "TypeError"],
    ["a tool that is none", exit, { add: "add" }, "TypeError"],
  ];

  test.each(mistakes)(
    "%s: is thrown at once, and costs no attempt",
    async (_, handler, given, word) => {
      const run = await open();
      const driven = run.drive(handler as Handlers, { tools: given as Tools });
      const error = await driven.then(() => [], text);
      expect(error.at(-1)).toBe(word);
      expect(await happened(run)).toEqual(["transition"]);
      await goesOn(run);
    },
  );

  test("an error about another run fails the turn, which is tried again", async () => {
    const over = await open();
    await over.cancel();
    const run = await open();
    const request = [() => over.emit("Done"), () => run.turn()];
    const result = await run.drive(async (turn) => {
      await request.shift()?.();
      return exit(turn);
    });
    expect(result.errors.map(text)).toEqual([
      ["state", "RUN_TERMINAL"],
      ["permission", "TURN_LEASED"],
    ]);
    expect(result.status).toBe(RunStatus.ESCALATED);
  });

  test("a pack that nobody registered is thrown at once", async () => {
    const error = await shared.client.run("nowhere", exit).catch(text);
    expect(error).toEqual(["not_found", "PACK_NOT_FOUND"]);
  });
});

test("events wait for a sidecar that is away, as long as the run does", async () => {
  await using sidecar = await Sidecar.start({ packs: [STEPS], allowTools: ["*"] });
  using client = sidecar.client({ log: QUIET });
  const now = performance.now.bind(performance);
  let later = 0;
  let step = 0;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => {
    later += step;
    return now() + later;
  });
  const kinds: string[] = [];
  const kill = async () => {
    await sidecar.kill();
    step = 70_000; // Each look at the clock is later than an iteration over events would wait.
    await vi.waitFor(() => expect(later).toBeGreaterThan(1_000_000), 30_000);
    step = 0;
    await sidecar.restart();
    return 3;
  };
  try {
    const onOutput = ({ kind }: { kind: string }) => void kinds.push(kind);
    const result = await client.run("steps", calc, {
      variables: { n: 1 },
      tools: { add: kill },
      onOutput,
    } as never);
    expect(result).toMatchObject({ status: RunStatus.COMPLETED, artifacts: { sum: 3 } });
  } finally {
    clock.mockRestore();
  }
  expect(kinds.at(-1)).toBe("end");
});
