/** Mistakes of handlers: the program gets a typed error, and no work is lost. */

import { describe, expect, test } from "vitest";
import { all, Gate, serving, stepsPack, useSidecar, useWorkers } from "./fixture.js";
import { Cuttable } from "./fixture_cuttable.js";
import { PawlClient, PawlError, RecordKind, type Run, RunStatus, type Turn } from "./index.js";

const shared = useSidecar();
const serve = useWorkers();
const start = (pack = "steps") => shared.client.start(pack, { variables: { n: 1 } });
/** The steps pack under a name of its own, for specs that run at the same time. */
async function ownPack(id: string, bounds = {}): Promise<string> {
  await shared.client.registerPack(stepsPack(id, bounds));
  return id;
}

const MEGABYTES_10 = "x".repeat(10_000_000);

const failures = (run: Run) => all(run.records({ kinds: [RecordKind.TURN_FAILED] }));

async function stepErrors(run: Run) {
  const records = await all(run.records({ kinds: [RecordKind.STEP_RESOLVED] }));
  return records.map(({ body }) => body.case === "stepResolved" && body.value.error?.code);
}

describe("a turn handler", () => {
  const faults: [string, (turn: Turn) => Promise<unknown>, string][] = [
    ["throws", () => Promise.reject(new TypeError("boom")), "TypeError"],
    ["throws no Error", () => Promise.reject("boom"), "Error"],
    ["names an event that is not allowed", async () => ({ event: "Nope" }), "UNKNOWN_EVENT"],
    [
      "writes an undeclared artifact",
      async () => ({ artifacts: { nope: 1 } }),
      "UNDECLARED_ARTIFACT",
    ],
    [
      "writes a wrong type",
      async () => ({ artifacts: { log: Uint8Array.of(1) } }),
      "ARTIFACT_TYPE",
    ],
    ["writes what is no JSON", async () => ({ artifacts: { sum: Symbol("no") } }), "INVALID_JSON"],
    [
      "writes too much",
      async () => ({ artifacts: { log: "x".repeat(70_000) } }),
      "ARTIFACT_TOO_LARGE",
    ],
    ["writes 10 MB", async () => ({ artifacts: { log: MEGABYTES_10 } }), "MESSAGE_TOO_LARGE"],
    [
      "writes 10 MB in its midst",
      (turn) => turn.setArtifacts({ log: MEGABYTES_10 }),
      "MESSAGE_TOO_LARGE",
    ],
    ["puts out 10 MB", async () => ({ output: MEGABYTES_10 }), "MESSAGE_TOO_LARGE"],
    ["asks with 10 MB", (turn) => turn.step("boom", { x: MEGABYTES_10 }), "MESSAGE_TOO_LARGE"],
    ["returns no reply", async () => 7, "BAD_REPLY"],
    ["returns an unknown key", async () => ({ events: "Done" }), "BAD_REPLY"],
    ["never returns", () => new Promise(() => undefined), "HANDLER_TIMEOUT"],
    ["asks with a payload that does not fit", (turn) => turn.step("add", { a: "1" }), "SCHEMA"],
    ["asks for a tool that is not listed", (turn) => turn.step("none"), "TOOL_NOT_LISTED"],
    ["asks for a tool that is not allowed", (turn) => turn.step("forbidden"), "TOOL_NOT_ALLOWED"],
  ];
  /** Refusals that the next attempt would get again, so the run ends. */
  const FINAL = ["TOOL_NOT_LISTED", "TOOL_NOT_ALLOWED"];

  test.concurrent.each(faults)(
    "that %s fails one attempt and is told why",
    async (what, bad, word) => {
      const pack = await ownPack(`turn-${slug(what)}`);
      const report: unknown[] = [];
      const worker = shared.client.worker({
        packs: [pack],
        handlerTimeoutMs: word === "HANDLER_TIMEOUT" ? 100 : undefined,
        onError: (error) => report.push(error),
      });
      worker.prompt("calc", async (turn) => {
        if (turn.terminal) {
          return;
        }
        return turn.attempt === 1 ? ((await bad(turn)) as undefined) : { event: "Done" };
      });
      await using _ = serving(worker);
      const run = await start(pack);
      const end = FINAL.includes(word) ? RunStatus.FAILED : RunStatus.COMPLETED;
      expect((await run.wait()).run?.status).toBe(end);
      expect(report).toHaveLength(1);
      const [error] = report;
      expect(PawlError.is(error) ? error.reason : nameOf(error)).toBe(word);
      const failed = (await failures(run)).map(({ body }) => {
        return body.case === "turnFailed" && body.value.error?.code;
      });
      expect(failed).toEqual([word]);
    },
  );

  test("that takes too long is told by its signal, and may do nothing more", async () => {
    const expired: unknown[] = [];
    const over = new Gate();
    const done = new Gate();
    const worker = shared.client.worker({ handlerTimeoutMs: 50 }).prompt("calc", async (turn) => {
      if (turn.attempt === 1 && !turn.terminal) {
        await new Promise((resolve) => turn.signal.addEventListener("abort", resolve));
        expired.push(turn.signal.reason.reason);
        await over.opened;
        expired.push(await turn.output("late").catch((error) => error.reason));
        done.open();
      }
      return turn.terminal ? {} : { event: "Done" };
    });
    serve(worker);
    const run = await start();
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    over.open();
    await done.opened;
    expect(expired).toEqual(["HANDLER_TIMEOUT", "TURN_STALE"]);
  });

  test("that returns after its lease is told, and its turn is executed again", async () => {
    const short = { lease_sec: 1, retry: { max_attempts: 10, initial_sec: 1 } };
    await ownPack("leased", short);
    const transport = new Cuttable(shared.sidecar.address);
    using client = new PawlClient({ address: await transport.listen() });
    const reported: unknown[] = [];
    const started = new Gate();
    const timedOut = new Gate();
    const worker = client.worker({ packs: ["leased"], onError: (error) => reported.push(error) });
    worker.prompt("calc", async (turn) => {
      if (turn.attempt === 1 && !turn.terminal) {
        started.open();
        await timedOut.opened;
        return { event: "Ask" };
      }
      return turn.terminal ? {} : { event: "Done" };
    });
    const served = worker.serve();
    const run = await start("leased");
    await started.opened;
    transport.hold(); // No heartbeat arrives any more, and the connection lives.
    for await (const record of run.transitions({ kinds: [RecordKind.TURN_FAILED] })) {
      expect(record.body.case).toBe("turnFailed");
      break;
    }
    timedOut.open();
    transport.release();
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    const moves = await all(run.transitions());
    expect(moves.map(({ body }) => body.case === "transition" && body.value.toState)).toEqual([
      "calc",
      "end",
      false,
    ]);
    expect(reported.map((error) => PawlError.is(error) && error.kind)).not.toContain(false);
    expect(reported.length).toBeGreaterThan(0);
    await worker.stop();
    await served;
    transport.close();
  });
});

describe("a tool", () => {
  // The last element is the reason of the error that the program gets, if it differs from the code.
  const faults: [string, unknown, object, string, string?][] = [
    ["throws", () => Promise.reject(new RangeError("no")), {}, "RangeError"],
    ["never returns", () => new Promise(() => undefined), {}, "HANDLER_TIMEOUT"],
    ["returns 10 MB", () => MEGABYTES_10, {}, "MESSAGE_TOO_LARGE"],
    ["returns what is no JSON", () => Symbol("no"), {}, "RESULT_INVALID", "INVALID_JSON"],
    ["returns what does not fit", () => "3", { result: { type: "number" } }, "RESULT_INVALID"],
    ["is given what does not fit", () => 3, { parameters: { required: ["c"] } }, "PAYLOAD_INVALID"],
  ];

  test.concurrent.each(faults)(
    "that %s answers its step with an error",
    async (what, tool, options, word, expected = word) => {
      const packs = [await ownPack(`tool-${slug(what)}`)];
      const report: unknown[] = [];
      const tools = shared.client.worker({
        packs,
        handlerTimeoutMs: word === "HANDLER_TIMEOUT" ? 100 : undefined,
        onError: (error) => report.push(error),
      });
      const seen: unknown[] = [];
      const turns = shared.client.worker({ packs }).prompt("calc", async (turn) => {
        if (turn.terminal) {
          return;
        }
        await turn
          .step("add", { a: 1, b: 2 })
          .catch((error) => seen.push(error.kind, error.reason));
        return { event: "Done" };
      });
      await using _tools = serving(tools.tool("add", tool as () => number, options));
      await using _turns = serving(turns);
      const run = await start(packs[0]);
      expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
      expect(seen).toEqual(["step_failed", word]);
      expect(await stepErrors(run)).toEqual([word]);
      // The call may have had its effect, unless the function's error says that it had none.
      const [resolved] = await all(run.transitions({ kinds: [RecordKind.STEP_RESOLVED] }));
      const happened = resolved?.body.case === "stepResolved" && resolved.body.value.unknown;
      expect(happened).toBe(!["RangeError", "PAYLOAD_INVALID"].includes(word));
      expect(report.map((error) => (PawlError.is(error) ? error.reason : nameOf(error)))).toEqual([
        expected,
      ]);
    },
  );

  test("is not asked with a payload that the pack's own schema refuses", async () => {
    const run = await shared.client.open("steps", { variables: { n: 1 } });
    const { turn } = await run.turn();
    // requestSteps does not make the checks of `turn.step`, as another client may not make them.
    const request = turn && (await run.requestSteps(turn, [{ tool: "add", payload: { a: "1" } }]));
    expect(request?.outcomes[0]?.step).toBeUndefined();
    expect(request?.outcomes[0]?.denial?.code).toBe("PAYLOAD_INVALID");
    await run.cancel();
  });
});

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : "Error";
}

function slug(text: string): string {
  return text.toLowerCase().replace(/[^a-z0-9]+/g, "-");
}
