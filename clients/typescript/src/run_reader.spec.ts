/** Reading runs and turns, from Node and from a page. */

import { describe, expect, test } from "vitest";
import { PawlClient as PageClient } from "./browser.js";
import { all, SELF_CORRECTING, STEPS, useSidecar } from "./fixture.js";
import { Awaiting, failTurn, RecordKind, RunStatus } from "./index.js";

const shared = useSidecar({ packs: [SELF_CORRECTING, STEPS], flags: ["--http=127.0.0.1:0"] });
const page = () => new PageClient({ baseUrl: `http://${shared.sidecar.http}` });

describe.each([
  ["Node", () => shared.client],
  ["a page", page],
])("from %s", (where, clientOf) => {
  test("a turn is shown as it was, and no token is fenced by that", async () => {
    const run = await shared.client.open("self-correcting");
    const { turn } = await run.turn();
    const seen = clientOf().attach(run.id);
    const shown = await seen.showTurn(1);
    expect([shown.turn?.state, shown.turn?.token, shown.allowedEvents]).toEqual([
      "work",
      "",
      ["Error", "Success"],
    ]);
    await run.emit("Error", { turnToken: turn?.token, artifacts: { error_summary: "E1" } });
    expect((await seen.showTurn(1)).systemPrompt).not.toContain("E1");
    await expect(seen.showTurn(99)).rejects.toMatchObject({ reason: "RECORD_NOT_FOUND" });
  });

  test("variables, counts and the caller are told", async () => {
    const client = clientOf();
    const before = (await client.countRuns()).get(RunStatus.CANCELLED) ?? 0;
    const run = await shared.client.open("steps", { variables: { n: 7 } });
    expect(await client.attach(run.id).variables()).toEqual({ n: 7 });
    await run.cancel();
    expect((await client.countRuns()).get(RunStatus.CANCELLED)).toBe(before + 1);
    const { principal, scopes } = await client.caller();
    expect([principal, scopes.includes("runs:write")]).toEqual(["anonymous", true]);
  });

  test("a pack is read by its digest, and its graph", async () => {
    const client = clientOf();
    const { pack } = await client.getPack("steps");
    const digest = pack?.digest ?? "";
    expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect((await client.getPack(digest)).pack).toEqual(pack);
    expect((await client.packGraph(digest)).entry).toBe("calc");
    await expect(client.getPack(`sha256:${"0".repeat(64)}`)).rejects.toMatchObject({
      reason: "PACK_NOT_FOUND",
    });
  });

  test("a stream from now on leaves out what was before", async () => {
    const labels = { from: `now ${where}` };
    await (await shared.client.open("self-correcting", { labels })).cancel();
    const records = clientOf().transitions(
      { labels },
      { fromNow: true, kinds: [RecordKind.ENDED, RecordKind.PAUSED] },
    );
    const first = records.next();
    // Records that were written before the stream is open are not part of it.
    const run = await shared.client.open("self-correcting", { labels });
    let note = 0;
    const read = first.then((one) => [one.value?.runId, one.value?.body.case]);
    let seen: unknown;
    read.then((value) => {
      seen = value;
    });
    while (seen === undefined) {
      await run.pause(String(note++));
      await run.resume();
    }
    expect(await read).toEqual([run.id, "paused"]);
    await records.return();
  });
});

test("a run waits for an input where its turn says so", async () => {
  const run = await shared.client.open("steps", { variables: { n: 1 } });
  const result = await run.drive(() => ({ output: "Which?", awaiting: Awaiting.INPUT }));
  expect([result.status, result.run.awaiting]).toEqual([RunStatus.WAITING, Awaiting.INPUT]);
  await run.sendInput("That.");
  expect((await run.turn()).messages.at(-1)?.role).toBe("user");
  await run.cancel();
});

test("a piece of output is kept, and a refused piece of work ends its run", async () => {
  const run = await shared.client.open("steps", { variables: { n: 1 } });
  const { turn } = await run.turn();
  if (!turn) {
    throw new Error("no turn");
  }
  const piece = { id: "report", parts: ["half"], metadata: { of: 2 } };
  const kept = await run.writeOutput(turn, piece, { id: "p1" });
  expect((await run.writeOutput(turn, piece, { id: "p1" })).duplicate).toBe(true);
  const body = kept.record?.body;
  expect(body?.case === "outputWritten" && body.value.piece).toMatchObject({
    id: "report",
    metadata: { of: 2 },
    append: false,
  });
  const result = await run.drive(() => {
    throw failTurn("NOT_MINE", "another agent's work", { reject: true });
  });
  expect([result.status, result.reason]).toEqual([RunStatus.FAILED, "rejected"]);
  expect(await all(run.records({ kinds: [RecordKind.OUTPUT_WRITTEN] }))).toHaveLength(1);
});
