/** What workers do wrong on their stream: a typed error to the one who did it. */

import { describe, expect, test } from "vitest";
import { useSidecar, useWorkers } from "./fixture.js";
import { RawWorker } from "./fixture_raw_worker.js";
import { type PawlClient, WaitUntil } from "./index.js";
import { turnTarget } from "./turn_requests.js";

const shared = useSidecar();
const serve = useWorkers();
const start = () => shared.client.start("steps", { variables: { n: 1 } });

describe("a registration", () => {
  const handler = () => ({});
  test.each<[string, (client: PawlClient) => Promise<void>, string]>([
    ["a prompt", (client) => client.worker().prompt("nope", handler).serve(), "UNKNOWN_PROMPT"],
    ["an agent", (client) => client.worker().agent("nope", handler).serve(), "UNKNOWN_AGENT"],
    ["a tool", (client) => client.worker().tool("nope", handler).serve(), "UNKNOWN_TOOL"],
    [
      "a pack",
      (client) =>
        client
          .worker({ packs: ["nope"] })
          .prompt("calc", handler)
          .serve(),
      "PACK_NOT_FOUND",
    ],
  ])("of %s that there is none of is refused", async (_, serving, reason) => {
    await expect(serving(shared.client)).rejects.toMatchObject({ reason });
  });

  test("of unknown names is taken where it is asked for", async () => {
    const worker = shared.client.worker({ allowUnknown: true });
    serve(worker.prompt("nope", handler).prompt("calc", () => ({ event: "Ask" })));
    const run = await start();
    expect((await run.wait({ until: WaitUntil.WAITING })).run?.state).toBe("ask");
    await run.cancel();
  });

  test("by a name that is in use ends the worker that had it", async () => {
    const [first, second] = [1, 2].map(() => {
      return serve(shared.client.worker({ workerId: "same" }).prompt("calc", handler));
    });
    await expect(Promise.race([first, second])).rejects.toMatchObject({
      reason: "WORKER_REPLACED",
    });
  });
});

describe("a worker by hand", () => {
  test("that floods heartbeats is told, and stays connected", async () => {
    using hand = await RawWorker.register(shared.sidecar.address);
    const heartbeat = { item: { case: "heartbeat" as const, value: {} } };
    const flood = Array.from({ length: 400 }, () => hand.session.ask(heartbeat));
    const refused = (await Promise.allSettled(flood)).flatMap((one) =>
      one.status === "rejected" ? [one.reason] : [],
    );
    expect(refused.length).toBeGreaterThan(0);
    expect(refused[0]).toMatchObject({ kind: "limit", reason: "RATE_LIMITED" });
    const run = await start();
    hand.session.send({ credits: { turns: 1, steps: 0 } });
    expect((await hand.next("turn")).value.lease?.runId).toBe(run.id);
    await run.cancel();
  });

  test("that claims the turn of another is refused, and the other goes on", async () => {
    using owner = await RawWorker.register(shared.sidecar.address, { workerId: "owner" });
    using thief = await RawWorker.register(shared.sidecar.address, { workerId: "thief" });
    const run = await start();
    owner.session.send({ credits: { turns: 1, steps: 0 } });
    const { lease } = (await owner.next("turn")).value;
    const { runId = "", turnSeq = 0n, attempt = 0, token = "" } = lease ?? {};
    const turn = turnTarget("", { runId, turnSeq: Number(turnSeq), attempt, token });
    const claim = { item: { case: "completeTurn" as const, value: { ...turn, event: "Ask" } } };
    await expect(thief.session.ask(claim)).rejects.toMatchObject({
      kind: "permission",
      reason: "TURN_TOKEN_STALE",
    });
    const resolve = { runId, step: 1, tool: "add", attempt: 1, turnToken: token };
    const answer = { ...resolve, answer: { case: "resultJson" as const, value: "3" } };
    const answering = { item: { case: "resolveStep" as const, value: answer } };
    await expect(thief.session.ask(answering)).rejects.toMatchObject({ reason: "STEP_NOT_HELD" });
    expect((await run.info()).state).toBe("calc");
    await owner.session.ask(claim);
    expect((await run.info()).state).toBe("ask");
    await run.cancel();
  });

  test("that does not register ends its stream", async () => {
    const bad = RawWorker.register(shared.sidecar.address, { workerId: "" });
    await expect(bad).rejects.toMatchObject({ kind: "request", reason: "INVALID_REQUEST" });
  });
});
