/** The browser entry against the gateway of a real sidecar. */

import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { PawlClient, PawlError, RunStatus, WaitUntil } from "./browser.js";
import { events } from "./events.js";
import { all, SELF_CORRECTING, STEPS, useSidecar } from "./fixture.js";

const shared = useSidecar({ packs: [SELF_CORRECTING, STEPS], flags: ["--http=127.0.0.1:0"] });
const page = (options = {}) =>
  new PawlClient({ baseUrl: `http://${shared.sidecar.http}`, ...options });

async function asking() {
  const run = await shared.client.open("steps", { variables: { n: 1 }, labels: { where: "page" } });
  await run.emit("Ask", { turnToken: (await run.turn()).turn?.token });
  return run;
}

describe("a page", () => {
  test("reads packs and runs", async () => {
    const client = page();
    const packs = await all(client.listPacks());
    expect(packs.map((pack) => pack.id)).toEqual(["self-correcting", "steps"]);
    expect((await client.packGraph("steps")).entry).toBe("calc");
    const run = await asking();
    const listed = await all(
      client.listRuns({ labels: { where: "page" }, statuses: [RunStatus.WAITING] }),
    );
    expect(listed.map((info) => info.runId)).toContain(run.id);
    expect((await client.attach(run.id).info({ atSeq: 1 })).state).toBe("calc");
    const waited = await client.attach(run.id).wait({ until: WaitUntil.WAITING, waitMs: 1500 });
    expect(waited.timedOut).toBe(false);
  });

  test("approves, and follows the run to its end", async () => {
    const run = await asking();
    const seen = page().attach(run.id);
    const reading = all(seen.transitions());
    const artifacts = { log: "approved" };
    const moved = await seen.emit("Yes", {
      id: "click",
      artifacts,
      expectedSeq: (await seen.info()).visitSeq,
    });
    expect([moved.state, moved.duplicate]).toEqual(["end", false]);
    expect((await seen.emit("Yes", { id: "click", artifacts })).duplicate).toBe(true);
    expect(await seen.artifacts()).toEqual(artifacts);
    await seen.cancel("seen");
    const records = await reading;
    expect(records).toEqual(await all(run.transitions()));
    expect(records.at(-1)?.body.case).toBe("ended");
    expect(await all(seen.transitions({ afterSeq: records[0]?.seq }))).toEqual(records.slice(1));
  });

  test("is told of errors in the same words", async () => {
    const seen = page().attach((await asking()).id);
    await expect(seen.emit("Maybe")).rejects.toMatchObject({
      kind: "state",
      code: "FAILED_PRECONDITION",
      reason: "UNKNOWN_EVENT",
      allowed: ["No", "Yes"],
    });
    const unknown = page().attach("01ARZ3NDEKTSV4RRFFQ69G5FAV");
    await expect(unknown.info()).rejects.toMatchObject({ reason: "RUN_NOT_FOUND" });
    await expect(all(unknown.transitions())).rejects.toMatchObject({ reason: "RUN_NOT_FOUND" });
    await expect(seen.info({ atSeq: 99 })).rejects.toBeInstanceOf(PawlError);
  });

  test("stops by signal and by time, and says when nobody is there", async () => {
    const seen = page().attach((await asking()).id);
    await expect(seen.info({ signal: AbortSignal.abort() })).rejects.toMatchObject({
      kind: "cancelled",
    });
    await expect(all(seen.transitions({ timeoutMs: 50 }))).rejects.toMatchObject({
      kind: "deadline",
    });
    const absent = page({ baseUrl: "http://127.0.0.1:1", retryForMs: 0 });
    await expect(all(absent.listPacks())).rejects.toMatchObject({ kind: "unavailable" });
  });

  test("takes up a stream that was cut", async () => {
    const run = await asking();
    let connections = 0;
    const cutting: typeof fetch = async (url, init) => {
      const response = await fetch(url, init);
      if (!String(url).includes(":stream") || ++connections > 3) {
        return response;
      }
      const reader = response.body?.getReader();
      const first = await reader?.read();
      await reader?.cancel();
      return new Response(first?.value, { headers: response.headers });
    };
    const reading = all(page({ fetch: cutting }).attach(run.id).transitions());
    await run.emit("No");
    await run.cancel();
    expect((await reading).map((record) => record.seq)).toEqual(
      (await all(run.transitions())).map((record) => record.seq),
    );
    expect(connections).toBeGreaterThan(1);
  });
});

test("events are read over any cut of the bytes", async () => {
  const bytes = new TextEncoder().encode(
    ": hi\r\ndata: ä\ndata:b\r\n\r\nevent: end\ndata: {}\n\ndata: x",
  );
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) {
        controller.enqueue(Uint8Array.of(byte));
      }
      controller.close();
    },
  });
  expect(await all(events(new Response(body)))).toEqual([
    { name: "message", data: "ä\nb" },
    { name: "end", data: "{}" },
  ]);
});

test("nothing of Node is reached from the browser entry", () => {
  const source = new URL(".", import.meta.url);
  const known = new Set(readdirSync(source));
  const seen = new Set<string>();
  const visit = (name: string) => {
    if (seen.has(name) || !known.has(name)) {
      return;
    }
    seen.add(name);
    const written = readFileSync(new URL(name, source), "utf8");
    // Types are gone when it runs.
    const text = written.replace(/^(import|export) type [^;]*;/gm, "");
    expect(text, name).not.toMatch(/from "(node:|ajv|@connectrpc\/connect-node)/);
    for (const [, next] of text.matchAll(/from "\.\/([\w.]+)\.js"/g)) {
      visit(`${next}.ts`);
    }
  };
  visit("browser.ts");
  expect(seen.size).toBeGreaterThan(8);
});
