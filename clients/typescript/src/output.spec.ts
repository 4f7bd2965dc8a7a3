/** Output of turns that are under way. */

import { create } from "@bufbuild/protobuf";
import { afterEach, describe, expect, test } from "vitest";
import { PawlClient as PageClient } from "./browser.js";
import { all, Gate, SELF_CORRECTING, STEPS, useSidecar } from "./fixture.js";
import { Cuttable } from "./fixture_cuttable.js";
import { StreamTransitionsResponseSchema } from "./gen/pawl/v1/run_pb.js";
import { type OutputChunk, PawlClient, type Turn, type Worker } from "./index.js";
import { OutputReader } from "./output.js";
import { Sidecar } from "./testing.js";

const shared = useSidecar({ packs: [SELF_CORRECTING, STEPS], flags: ["--http=127.0.0.1:0"] });
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

/** What somebody has on the screen after these pieces. */
function shown(chunks: readonly OutputChunk[]): string {
  return chunks.reduce((text, chunk) => (chunk.reset ? "" : text) + chunk.text, "");
}

describe("the output of a run", () => {
  test("comes while the turn is under way, and ends with the run", async () => {
    const seen = new Gate();
    const run = await written(async (turn) => {
      await turn.output("grüße ");
      await seen.opened;
      await turn.output("all");
    });
    const chunks: OutputChunk[] = [];
    for await (const chunk of run.output()) {
      chunks.push(chunk);
      seen.open();
    }
    expect(shown(chunks)).toBe("grüße all");
    expect(chunks.at(-1)?.position).toEqual({ turnSeq: 1, delivery: 1, offset: 11 });
    expect(await all(run.output())).toEqual([]);
  });

  test("begins anew with a new attempt", async () => {
    const seen = new Gate();
    const run = await written(async (turn) => {
      await turn.output(`attempt ${turn.attempt}`);
      if (turn.attempt === 1) {
        await seen.opened;
        throw new Error("no");
      }
    });
    const chunks: OutputChunk[] = [];
    for await (const chunk of run.output()) {
      chunks.push(chunk);
      seen.open();
    }
    expect(chunks.map((chunk) => [chunk.text, chunk.attempt, chunk.reset])).toEqual([
      ["attempt 1", 1, false],
      ["attempt 2", 2, true],
    ]);
  });

  test("is gone on with from a position, also by a page", async () => {
    const seen = new Gate();
    const run = await written(async (turn) => {
      await turn.output("one ");
      await turn.output("two");
      await seen.opened;
    });
    let first: OutputChunk | undefined;
    for await (const chunk of run.output()) {
      first = chunk;
      if (chunk.position.offset === 7) {
        break;
      }
    }
    const after = { turnSeq: 1, delivery: 1, offset: 4 };
    const page = new PageClient({ baseUrl: `http://${shared.sidecar.http}` });
    const read = [run.output({ after }), page.attach(run.id).output({ after })].map((it) => {
      return it.next().finally(() => it.return());
    });
    const [here, there] = await Promise.all(read);
    expect(here?.value).toMatchObject({ text: "two", offset: 4, reset: false });
    expect(there?.value).toEqual(here?.value);
    expect(first?.position).toEqual(here?.value?.position);
    seen.open();
    await run.wait();
  });

  test("is read once over a connection that is cut", async () => {
    const way = new Cuttable(shared.sidecar.address);
    const client = new PawlClient({ address: await way.listen() });
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
    const chunks: OutputChunk[] = [];
    try {
      for await (const chunk of client.attach(run.id).output()) {
        chunks.push(chunk);
        if (chunks.length % 6 === 0) {
          way.cut();
        }
        read.open();
      }
    } finally {
      client.close();
      way.close();
    }
    expect(chunks.map((chunk) => chunk.text)).toEqual(pieces);
    expect(chunks.some((chunk) => chunk.reset)).toBe(false);
  });
});

test("goes on over a killed sidecar, which is told again what was before", async () => {
  await using sidecar = await Sidecar.start({ packs: [STEPS] });
  const client = sidecar.client();
  const seen = new Gate();
  const again = new Gate();
  const run = await written(async (turn) => {
    await turn.output("before ");
    await again.opened;
    await turn.output("after the restart");
    await seen.opened;
  }, client);
  try {
    const chunks: OutputChunk[] = [];
    for await (const chunk of run.output()) {
      chunks.push(chunk);
      if (chunks.length === 1) {
        await sidecar.restart();
        again.open();
      } else {
        seen.open();
      }
    }
    expect(shown(chunks)).toBe("before after the restart");
  } finally {
    await Promise.all(working.splice(0).map((worker) => worker.stop()));
    client.close();
  }
});

describe("a reader", () => {
  const target = { namespace: "", runId: "r" };
  const item = (offset: number, text: string, more = {}) => {
    const value = { turnSeq: 3n, attempt: 1, delivery: 1, offset: BigInt(offset), text, ...more };
    return create(StreamTransitionsResponseSchema, { item: { case: "output", value } });
  };

  test("takes each piece once and asks for what follows", () => {
    const reader = new OutputReader(target, {});
    expect(reader.request().outputAfter).toEqual({ turnSeq: 0n, delivery: 0, offset: 0n });
    const read = [item(0, "ä"), item(0, "ä"), item(2, "b")].map((one) => reader.read(one)?.text);
    expect(read).toEqual(["ä", undefined, "b"]);
    expect(reader.request().outputAfter).toEqual({ turnSeq: 3n, delivery: 1, offset: 3n });
    expect(reader.read(item(0, "c", { delivery: 2, reset: true }))?.position.offset).toBe(1);
    expect(reader.read(create(StreamTransitionsResponseSchema))).toBeUndefined();
  });

  test.each([[5], [1]])("tells of a piece that does not follow: %i", (offset) => {
    const reader = new OutputReader(target, { after: { turnSeq: 3, delivery: 1, offset: 2 } });
    const wrong = () => reader.read(item(offset, "abc"));
    expect(wrong).toThrow("but 2 bytes were read");
    expect(wrong).toThrow(expect.objectContaining({ kind: "gap" }));
  });
});
