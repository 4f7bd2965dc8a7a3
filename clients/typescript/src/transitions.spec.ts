/** Streams that lose their connection, and what a position accepts. */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { all, SELF_CORRECTING, useSidecar } from "./fixture.js";
import { Cuttable } from "./fixture_cuttable.js";
import { PawlClient, PawlError, type Record, RecordKind } from "./index.js";
import { type SequencedRecord, StreamPosition } from "./stream_position.js";
import { Sidecar } from "./testing.js";

const shared = useSidecar();

/** Visits of the run that is followed while its connection is cut, and how often. */
const VISITS = Number(process.env.PAWL_VISITS ?? 400);
const CUTS = Number(process.env.PAWL_CUTS ?? 20);

describe("over a connection that is cut", () => {
  let transport: Cuttable;
  let client: PawlClient;
  beforeAll(async () => {
    transport = new Cuttable(shared.sidecar.address);
    client = new PawlClient({ address: await transport.listen() });
  });
  afterAll(() => {
    client.close();
    transport.close();
  });

  test("each record is read once and in order", async () => {
    const run = await shared.client.open("steps", { variables: { n: 1 } });
    const seen: number[] = [];
    const reading = (async () => {
      for await (const record of client.attach(run.id).transitions()) {
        seen.push(record.seq);
        if (record.body.case === "transition" && record.body.value.visit % (VISITS / CUTS) === 0) {
          transport.cut();
        }
      }
    })();
    let turnToken = (await run.turn()).turn?.token;
    for (let visit = 1; visit < VISITS; visit += 1) {
      turnToken = (await run.emit("Again", { turnToken })).turn?.token;
    }
    await run.cancel();
    await reading;
    expect(transport.cuts).toBe(CUTS);
    const listed = await all(run.records());
    expect(seen).toEqual(listed.map((record) => record.seq));
    expect(seen).toHaveLength(VISITS + 1);
  });

  test("calls take effect once", async () => {
    const run = await client.open("steps", { variables: { n: 1 } });
    for (let visit = 1; visit <= 20; visit += 1) {
      const turnToken = (await run.turn()).turn?.token;
      const emitted = run.emit("Again", { turnToken });
      transport.cut();
      await emitted;
    }
    expect((await shared.client.attach(run.id).info()).visits).toEqual({ calc: 21 });
  });
});

test("a stream goes on over a killed sidecar", async () => {
  const sidecar = await Sidecar.start({ packs: [SELF_CORRECTING] });
  const client = sidecar.client();
  try {
    const run = await client.open("self-correcting");
    const reading = all(run.transitions());
    await sidecar.restart();
    await run.emit("Error", { turnToken: (await run.turn()).turn?.token });
    await sidecar.restart();
    await run.cancel();
    expect((await reading).map((record) => record.body.case)).toEqual([
      "transition",
      "transition",
      "ended",
    ]);
  } finally {
    client.close();
    await sidecar.close();
  }
});

test("ends by signal, by time, by patience, and by the reader", async () => {
  const run = await shared.client.open("self-correcting");
  const stop = new AbortController();
  const records = run.transitions({ signal: stop.signal });
  expect((await records.next()).value?.body.case).toBe("transition");
  stop.abort();
  await expect(records.next()).rejects.toMatchObject({ kind: "cancelled" });
  await expect(all(run.transitions({ timeoutMs: 50 }))).rejects.toMatchObject({
    kind: "deadline",
  });
  const unknown = new PawlClient({ address: "127.0.0.1:1", retryForMs: 0 });
  const lost = unknown.attach(run.id);
  await expect(all(lost.transitions({ reconnectForMs: 50 }))).rejects.toMatchObject({
    kind: "unavailable",
  });
  await expect(lost.info()).rejects.toMatchObject({ kind: "unavailable" });
  for await (const record of run.transitions()) {
    expect(record.seq).toBe(1);
    break;
  }
  expect(await all(run.transitions({ follow: false }))).toHaveLength(1);
});

test("all runs, from a cursor, with snapshots", async () => {
  const labels = { all: "runs" };
  const run = await shared.client.open("self-correcting", { labels });
  const read = (afterCursor = "") =>
    all(shared.client.transitions({ labels }, { follow: false, snapshots: true, afterCursor }));
  const first = await read();
  expect(first.map((record) => record.runId)).toEqual([run.id]);
  expect(first[0]?.snapshot?.run?.state).toBe("work");
  await run.cancel();
  const kinds = (records: Record[]) => records.map((record) => record.body.case);
  expect(kinds(await read(first[0]?.cursor))).toEqual(["ended"]);
  const none = all(run.records({ kinds: [RecordKind.PAUSED] }));
  expect(await none).toEqual([]);
});

describe("a position", () => {
  const record = (seq: number, prevSeq: number, runId = "r"): SequencedRecord => ({
    runId,
    seq: BigInt(seq),
    prevSeq: BigInt(prevSeq),
    cursor: `c${seq}`,
    body: { case: undefined },
  });

  test("accepts each record once", () => {
    const position = new StreamPosition("r", 4n);
    expect([4, 5, 5, 7].map((seq) => position.accept(record(seq, seq === 7 ? 5 : 4)))).toEqual([
      false,
      true,
      false,
      true,
    ]);
    expect([position.afterSeq, position.cursor]).toEqual([7n, "c7"]);
  });

  test.each<[string, () => boolean]>([
    ["in one run", () => new StreamPosition("r", 4n).accept(record(9, 7))],
    [
      "in all runs",
      () => {
        const position = new StreamPosition("");
        return position.accept(record(9, 7, "x")) && position.accept(record(12, 11, "x"));
      },
    ],
  ])("tells of a gap %s", (_, read) => {
    expect(read).toThrow(PawlError);
    expect(read).toThrow(/follows/);
  });
});
