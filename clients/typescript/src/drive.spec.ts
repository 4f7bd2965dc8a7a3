/** Driving runs over one stream: what is shared, and what stays as it was without one. */

import { create, toBinary } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createClient,
  createRouterTransport,
  type ServiceImpl,
  type Transport,
} from "@connectrpc/connect";
import { afterEach, describe, expect, test } from "vitest";
import { Connection } from "./connection.js";
import { DriveTransport } from "./drive_transport.js";
import { QUIET, useSidecar } from "./fixture.js";
import { Cuttable } from "./fixture_cuttable.js";
import {
  DriveAnswerSchema,
  type DriveRequest,
  DriveRequestSchema,
  RunService,
} from "./gen/pawl/v1/run_pb.js";
import { PawlError, RecordKind, RunStatus, type Turn } from "./index.js";
import { nodeTransport } from "./node_transport.js";
import { Run } from "./run.js";
import { RunTurns } from "./run_turns.js";

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

const tools = { add: ({ a, b }: never) => (a as number) + (b as number) } as never;

/** A transport that says which methods were called. */
function counted(below: Transport): { transport: Transport; calls: string[] } {
  const calls: string[] = [];
  const transport: Transport = {
    unary: (...call) => {
      calls.push(call[0].name);
      return below.unary(...call);
    },
    stream: (...call) => {
      calls.push(call[0].name);
      return below.stream(...call);
    },
  };
  return { transport, calls };
}

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) {
    close();
  }
});

/** A connection to the real sidecar whose calls are counted. */
function connected(change: (below: Transport) => Transport = (below) => below) {
  const { transport: below, sessions } = nodeTransport({ address: shared.sidecar.address });
  closing.push(() => sessions.abort());
  const { transport, calls } = counted(change(below));
  const drive = new DriveTransport(transport, 1 << 22, (error) => error);
  const connection = new Connection(transport, { log: QUIET, shared: drive });
  return { connection, calls, sessions };
}

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
    expect(calls).toEqual(["Drive", "GetRun", "GetRun", "GetRun"]);
    // No call is under way: the process may end.
    await expect.poll(() => sessions.underWay).toBe(0);
    const [again] = await Promise.all([open()]);
    await new Run(connection, again.id).drive(calc, { tools });
    expect(calls.filter((name) => name === "Drive")).toHaveLength(2);
  });

  test("make their other calls, and those outside of the loop, without it", async () => {
    const { connection, calls } = connected();
    const run = new Run(connection, (await open()).id);
    await run.drive(async (turn) => {
      if (!turn.terminal) {
        await run.sendInput("from outside");
      }
      return turn.terminal ? {} : { event: "Done" };
    });
    expect(calls).toEqual(["Drive", "SendInput", "GetRun"]);
  });

  test("are driven call by call where there is no such stream", async () => {
    const { connection, calls } = connected((below) => ({
      ...below,
      stream: (...call) =>
        call[0].name === "Drive"
          ? Promise.reject(new ConnectError("unknown method Drive", Code.Unimplemented))
          : below.stream(...call),
    }));
    const run = await open();
    const { status } = await new Run(connection, run.id).drive(calc, { tools });
    expect(status).toBe(RunStatus.COMPLETED);
    expect(calls.filter((name) => name === "Drive")).toHaveLength(1);
    expect(calls.slice(1, 3)).toEqual(["GetTurn", "SetArtifacts"]);
  });

  test("are driven call by call while there are too many streams", async () => {
    let refusals = 1;
    const { connection, calls } = connected((below) => ({
      ...below,
      stream: (...call) => {
        refusals -= 1;
        return refusals >= 0
          ? Promise.reject(new ConnectError("too many", Code.ResourceExhausted))
          : below.stream(...call);
      },
    }));
    const run = await open();
    await new Run(connection, run.id).drive(calc, { tools });
    expect(calls.slice(0, 3)).toEqual(["Drive", "GetTurn", "Drive"]);
  });

  test("go on over a new stream when the link is cut, and nothing happens twice", async () => {
    const link = new Cuttable(shared.sidecar.address);
    closing.push(() => link.close());
    const { transport, shared: drive, sessions } = nodeTransport({ address: await link.listen() });
    closing.push(() => sessions.abort());
    const connection = new Connection(transport, { log: QUIET, shared: drive });
    const runs = await Promise.all(Array.from({ length: 8 }, open));
    let turns = 0;
    const results = await Promise.all(
      runs.map((run) =>
        new Run(connection, run.id).drive(
          (turn) => {
            turns += 1;
            if (turns === 4) {
              // In the midst of what the others send.
              link.cutAfter = 200;
            }
            return calc(turn);
          },
          { tools },
        ),
      ),
    );
    expect(link.cuts).toBe(1);
    expect(results.flatMap(({ errors }) => errors)).toEqual([]);
    for (const run of runs) {
      const kinds = [RecordKind.TRANSITION, RecordKind.STEP_REQUESTED, RecordKind.STEP_RESOLVED];
      const bodies: (string | undefined)[] = [];
      for await (const { body } of run.records({ kinds })) {
        bodies.push(body.case);
      }
      expect(bodies).toEqual(["transition", "stepRequested", "stepResolved", "transition"]);
    }
  });
});

/** The calls of a run over the stream, and one by one. */
async function both(address = shared.sidecar.address, options = {}) {
  const { transport, shared: drive, sessions } = nodeTransport({ address });
  closing.push(() => sessions.abort());
  const connection = new Connection(transport, { log: QUIET, shared: drive, ...options });
  const { connection: driving, leave } = connection.driving();
  closing.push(leave);
  const { id } = await open();
  return { alone: new RunTurns(connection, id), driven: new RunTurns(driving, id), sessions };
}

/** What an error says, but for the numbers of this and that attempt. */
const said = (error: unknown) => {
  const { kind, code, reason, metadata, message } = error as PawlError;
  return { known: PawlError.is(error), kind, code, reason, metadata, message };
};

describe("a call over the stream", () => {
  test("is refused with the very same error", async () => {
    const { alone, driven } = await both();
    const { turn } = await alone.turn();
    if (!turn) {
      throw new Error("no turn");
    }
    for (const call of [
      (run: RunTurns) => run.complete(turn, { event: "Nope" }),
      (run: RunTurns) => run.complete({ ...turn, token: "other" }, {}),
      (run: RunTurns) => run.fail({ ...turn, turnSeq: 9 }, { code: "X" }),
      (run: RunTurns) => run.resolveStep(7, "add", { result: 1 }, { attempt: 1 }),
      (run: RunTurns) => run.emit("Nope", { id: "x".repeat(200) }),
    ]) {
      const errors = [];
      for (const run of [alone, driven]) {
        errors.push(said(await call(run).catch((error: unknown) => error)));
      }
      expect(errors[0]?.known).toBe(true);
      expect(errors[1]).toEqual(errors[0]);
    }
    const unknown = await driven.complete(turn, { event: "Nope" }).catch((error) => error);
    expect(unknown.allowed).toContain("Done");
  });

  test("is refused here where it is larger than a message may be", async () => {
    const { alone, driven } = await both(undefined, {});
    const large = { artifacts: { log: "x".repeat(5_000_000) } };
    const { turn } = await driven.turn();
    if (!turn) {
      throw new Error("no turn");
    }
    const errors = [];
    for (const run of [alone, driven]) {
      errors.push(await run.complete(turn, large, { id: "one" }).catch(said));
    }
    expect(errors[1]).toEqual(errors[0]);
    expect(errors[1]).toMatchObject({ kind: "limit", reason: "MESSAGE_TOO_LARGE" });
  });

  test("ends with its time, with its signal, and with the client", async () => {
    const link = new Cuttable(shared.sidecar.address);
    closing.push(() => link.close());
    const address = await link.listen();
    const { driven, sessions } = await both(address);
    await driven.turn();
    link.hold();
    await expect(driven.turn({ timeoutMs: 30 })).rejects.toMatchObject({
      kind: "deadline",
      code: "DEADLINE_EXCEEDED",
      message: `sidecar at ${address}: the operation timed out`,
    });
    const controller = new AbortController();
    const given = driven.turn({ signal: controller.signal });
    controller.abort();
    await expect(given).rejects.toMatchObject({ kind: "cancelled", code: "" });
    const closed = driven.turn();
    await new Promise((resolve) => setImmediate(resolve));
    sessions.abort();
    await expect(closed).rejects.toMatchObject({ kind: "cancelled" });
  });

  test("says where there is nobody", async () => {
    const { driven } = await both("127.0.0.1:1", { retryForMs: 0 });
    await expect(driven.turn()).rejects.toMatchObject({
      kind: "unavailable",
      message: expect.stringContaining("sidecar at 127.0.0.1:1: "),
    });
  });
});

/** Calls to a RunService that is made of functions. */
function against(service: Partial<ServiceImpl<typeof RunService>>) {
  const below = createRouterTransport(({ service: add }) => add(RunService, service));
  const drive = new DriveTransport(below, 1 << 22, (error) => error);
  closing.push(drive.enter());
  return createClient(RunService, drive);
}

describe("a stream", () => {
  test("carries no more commands in a message than the server announces", async () => {
    const sizes: number[] = [];
    const runs = against({
      async *drive(requests: AsyncIterable<DriveRequest>) {
        yield { window: 3 };
        for await (const { commands } of requests) {
          sizes.push(commands.length);
          const answer = { case: "getTurn" as const, value: {} };
          yield { answers: commands.map(({ id }) => create(DriveAnswerSchema, { id, answer })) };
        }
      },
    });
    await Promise.all(Array.from({ length: 8 }, () => runs.getTurn({})));
    expect(sizes).toEqual([3, 3, 2]);
  });

  test("carries messages that every sidecar takes; what is larger is a call of its own", async () => {
    const sizes: number[] = [];
    const alone: number[] = [];
    const runs = against({
      async *drive(requests: AsyncIterable<DriveRequest>) {
        yield { window: 100 };
        for await (const request of requests) {
          sizes.push(toBinary(DriveRequestSchema, request).length);
          const answer = { case: "sendInput" as const, value: {} };
          yield {
            answers: request.commands.map(({ id }) => create(DriveAnswerSchema, { id, answer })),
          };
        }
      },
      sendInput({ messageId }) {
        alone.push(messageId.length);
        throw new ConnectError("too large", Code.ResourceExhausted);
      },
    });
    const send = (size: number) => runs.sendInput({ messageId: "x".repeat(size) });
    const many = Promise.all(Array.from({ length: 8 }, () => send(20_000)));
    await expect(send(64 << 10)).rejects.toMatchObject({ code: Code.ResourceExhausted });
    await many;
    expect(alone).toEqual([64 << 10]);
    expect(sizes).toHaveLength(3);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(64 << 10);
  });

  test("that ends without all answers is asked again by whoever asked", async () => {
    let streams = 0;
    const runs = against({
      async *drive(requests: AsyncIterable<DriveRequest>) {
        streams += 1;
        yield { window: 3 };
        for await (const _ of requests) {
          return;
        }
      },
    });
    const asked = runs.getTurn({});
    await expect(asked).rejects.toMatchObject({ code: Code.Unavailable });
    await expect(runs.getTurn({})).rejects.toMatchObject({ code: Code.Unavailable });
    expect(streams).toBe(2);
  });

  test("with an answer of another kind is a fault of the server", async () => {
    const runs = against({
      async *drive(requests: AsyncIterable<DriveRequest>) {
        yield { window: 3 };
        for await (const { commands } of requests) {
          const answer = { case: "pauseRun" as const, value: {} };
          yield { answers: commands.map(({ id }) => create(DriveAnswerSchema, { id, answer })) };
        }
      },
    });
    await expect(runs.getTurn({})).rejects.toMatchObject({ code: Code.Internal });
  });
});
