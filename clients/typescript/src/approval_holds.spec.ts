/**
 * A caller that drives a run itself makes a call that needs an approval only after the approval:
 * the tool's own ledger contains exactly what was decided.
 */

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { PawlClient } from "./client.js";
import { Connection } from "./connection.js";
import { all, QUIET } from "./fixture.js";
import { chat } from "./fixture_models.js";
import { Ledger, refunds } from "./fixture_paying.js";
import { Program } from "./fixture_program.js";
import { type Calling, chatEvents, Provider } from "./fixture_provider.js";
import {
  failStep,
  RecordKind,
  type Run,
  RunStatus,
  StepDecision,
  StepVerdict,
  type Tool,
  WaitUntil,
} from "./index.js";
import { nodeTransport } from "./node_transport.js";
import { Sidecar } from "./testing.js";

/** The pack whose refunds above 100 wait for a person, for so many seconds at most. */
const pack = (id: string, seconds: number) =>
  JSON.stringify({
    id,
    name: "Held",
    version: "1.0.0",
    template_engine: { version: "v1", syntax: "{{variable}}" },
    prompts: {
      work: {
        id: "work",
        name: "Work",
        version: "1.0.0",
        system_template: "Pay back.",
        tools: ["refund"],
      },
      end: { id: "end", name: "End", version: "1.0.0", system_template: "Say goodbye." },
    },
    tools: {
      refund: {
        name: "refund",
        description: "Pays money back.",
        parameters: {
          type: "object",
          properties: { amount: { type: "number" } },
          required: ["amount"],
        },
      },
    },
    workflow: {
      version: 2,
      entry: "work",
      states: {
        work: { prompt_task: "work", on_event: { Done: "end" } },
        end: { prompt_task: "end", terminal: true },
      },
      engine: {
        x_pawl: {
          tools: {
            refund: {
              approve: "payload.amount > 100.0",
              approval: { timeout_sec: seconds },
              attempts: 2,
            },
          },
        },
      },
    },
  });

let sidecar: Sidecar;
let client: PawlClient;
let program: Program;
const directory = mkdtempSync(join(tmpdir(), "held-"));

beforeAll(async () => {
  program = new Program("fixture_paying");
  sidecar = await Sidecar.start({ allowTools: ["refund"] });
  client = sidecar.client({ log: QUIET });
  await client.registerPack(pack("held", 3600));
  await client.registerPack(pack("held-shortly", 1));
});

afterAll(async () => {
  client?.close();
  await sidecar?.close();
  program?.remove();
  rmSync(directory, { recursive: true, force: true });
});

/** A run whose turn pays `amounts`, and the results that the turn received. */
class Scene {
  readonly toReport: string[] = [];
  readonly ledger: Ledger;
  tool: Tool = (payload, call) => this.ledger.pay(payload, call);

  constructor(
    readonly run: Run,
    readonly name: string,
    readonly amounts: readonly number[],
    readonly pack: string,
  ) {
    this.ledger = new Ledger(join(directory, name));
  }
}

let scenes = 0;

async function scene(amounts: readonly number[], pack = "held"): Promise<Scene> {
  scenes += 1;
  const name = `scene-${scenes}`;
  return new Scene(await client.open(pack, { requestId: name }), name, amounts, pack);
}

type Mode = (scene: Scene) => Promise<RunStatus | undefined>;

const MODES: { readonly [name: string]: Mode } = {
  "client.run": async ({ toReport: report, amounts, tool, name, pack }) => {
    const options = { tools: { refund: tool }, requestId: name };
    return (await client.run(pack, refunds(report, ...amounts), options)).status;
  },
  "run.drive": async ({ toReport: reported, amounts, tool, run }) => {
    return (await run.drive({ "*": refunds(reported, ...amounts) }, { tools: { "*": tool } }))
      .status;
  },
  "a model by client.run": async ({ toReport: received, amounts, tool, name, pack }) => {
    const calls = amounts.map((amount, i): Calling => {
      return { id: `c${i}`, name: "refund", given: { amount } };
    });
    const exit = { id: "l", name: "leave_state", given: { event: "Done" } };
    const answers = [chatEvents("", ...calls), chatEvents("", exit), chatEvents("Bye.")];
    await using provider = await Provider.start(...answers);
    const handler = chat(provider.url);
    const options = { tools: { refund: tool }, requestId: name };
    const { status } = await client.run(pack, handler, options);
    const text = provider.got[1]?.body.messages as { role: string; content: string }[];
    for (const { content } of text.filter(({ role }) => role === "tool")) {
      received.push(content.includes("DENIED") ? "step_denied DENIED" : content);
    }
    return status;
  },
  "a worker": async ({ toReport: message, amounts, tool, run, name, pack }) => {
    await run.cancel(); // This mode starts its own run.
    const worker = client.worker({ packs: [pack], onError: () => undefined });
    worker.prompt("*", refunds(message, ...amounts)).tool("refund", tool);
    const served = worker.serve();
    const own = await client.start(pack, { requestId: `${name}-worker` });
    const status = (await own.wait({ waitMs: 60_000 })).run?.status;
    await worker.stop();
    await served;
    return status;
  },
};

/** Modes whose run is known before it is driven. */
const DRIVERS = Object.entries(MODES).filter(([name]) => name !== "a worker");

/** The calls that wait, once there are some. */
async function waiting(run: Run) {
  const waited = await run.wait({ until: WaitUntil.WAITING, waitMs: 60_000 });
  expect(waited.timedOut).toBe(false);
  const pending = await all(client.listApprovals({ runId: run.id }));
  const calls = pending.flatMap(({ call }) => (call ? [call] : []));
  return calls.sort((a, b) => a.step - b.step);
}

type Words = Parameters<Run["decideStep"]>[3];

/** The programs that drive runs. */
async function serving() {
  const { transport, sessions } = nodeTransport({ address: sidecar.address });
  const { workers } = await new Connection(transport, {}).workers.listWorkers({});
  sessions.abort();
  return workers.map(({ servedRuns, heldTurns }) => ({ servedRuns, heldTurns }));
}

/** Decides about the first call that waits; nothing was paid for it. */
async function decide({ run, ledger }: Scene, decision: StepDecision, words: Words = {}) {
  const [call] = await waiting(run);
  expect(ledger.keys()).not.toContain(call?.idempotencyKey);
  await run.decideStep(call?.step ?? 0, call?.approval?.digest ?? "", decision, words);
}

/** What was decided, in order. */
async function verdicts(run: Run) {
  const records = await all(run.records({ kinds: [RecordKind.STEP_DECIDED] }));
  return records.map(({ body }) => (body.case === "stepDecided" ? body.value.verdict : undefined));
}

async function past(moment: Date): Promise<void> {
  while (Date.now() <= moment.getTime()) {
    await new Promise((resolve) => setTimeout(resolve, moment.getTime() - Date.now() + 1));
  }
}

const paid = (amount: number) => JSON.stringify({ paid: amount });

for (const [mode, drive] of DRIVERS) {
  test.each([
    ["approves", StepDecision.APPROVE, {}, [250], paid(250)],
    ["edits", StepDecision.EDIT, { payload: { amount: 110 } }, [110], paid(110)],
    ["denies", StepDecision.DENY, { reason: "no" }, [], "step_denied DENIED"],
  ])(`${mode}: a person %s`, async (_what, decision, words, amounts, report) => {
    const at = await scene([250]);
    const driving = drive(at);
    await decide(at, decision, words);
    expect(await driving).toBe(RunStatus.COMPLETED);
    expect(at.ledger.amounts()).toEqual(amounts);
    expect(at.toReport).toEqual([report]);
  });

  test(`${mode}: what is not held is not kept waiting`, async () => {
    const at = await scene([7, 250, 8, 300]);
    const driving = drive(at);
    await decide(at, StepDecision.DENY);
    await decide(at, StepDecision.APPROVE);
    expect(await driving).toBe(RunStatus.COMPLETED);
    expect(at.ledger.amounts().sort((a, b) => a - b)).toEqual([7, 8, 300]);
    expect(at.toReport).toEqual([paid(7), "step_denied DENIED", paid(8), paid(300)]);
  });

  test(`${mode}: an approval that is over is asked for again`, async () => {
    const at = await scene([250]);
    const over = new Date(Date.now() + 1000);
    at.tool = async (payload, call) => {
      if (call.attempt === 1) {
        await past(over);
        throw failStep("LATE", "too late");
      }
      return at.ledger.pay(payload, call);
    };
    const driving = drive(at);
    await decide(at, StepDecision.APPROVE, { expires: over });
    await past(over);
    await decide(at, StepDecision.EDIT, { payload: { amount: 120 } });
    expect(await driving).toBe(RunStatus.COMPLETED);
    const { APPROVED, EXPIRED, EDITED } = StepVerdict;
    expect(await verdicts(at.run)).toEqual([APPROVED, EXPIRED, EDITED]);
    expect(at.ledger.lines()).toMatchObject([{ amount: 120, attempt: 2 }]);
  });
}

test.each(Object.entries(MODES))("%s: no decision comes in time", async (_mode, drive) => {
  const at = await scene([250], "held-shortly");
  expect(await drive(at)).toBe(RunStatus.COMPLETED);
  expect(at.ledger.lines()).toEqual([]);
  expect(at.toReport).toEqual(["step_denied DENIED"]);
});

test.each([
  ["the sidecar", StepDecision.APPROVE],
  ["the program", StepDecision.APPROVE],
  ["both", StepDecision.APPROVE],
  ["both", StepDecision.DENY],
])("%s killed while a call waits, then %i", async (killed, decision) => {
  const at = await scene([250]);
  let child = program.spawn(sidecar.address, at.name, join(directory, at.name));
  let ended = once(child, "exit");
  await waiting(at.run);
  if (killed !== "the program") {
    await sidecar.restart();
  }
  if (killed !== "the sidecar") {
    child.kill("SIGKILL");
    await ended;
    child = program.spawn(sidecar.address, at.name, join(directory, at.name));
    ended = once(child, "exit");
    // The program drives the run, whose turn continues after the decision.
    await expect.poll(serving, { timeout: 60_000 }).toEqual([{ servedRuns: 1, heldTurns: 0 }]);
  }
  await decide(at, decision);
  expect(await ended).toEqual([0, null]);
  expect(at.ledger.amounts()).toEqual(decision === StepDecision.APPROVE ? [250] : []);
});
