/** Time travel through a real sidecar. */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { SELF_CORRECTING, useSidecar } from "./fixture.js";
import { PawlError } from "./index.js";

const shared = useSidecar();

async function ended() {
  await shared.client.registerPack(readFileSync(SELF_CORRECTING));
  const run = await shared.client.open("self-correcting");
  const { turn } = await run.turn();
  if (turn) {
    await run.emit("Error", {
      turnToken: turn.token,
      artifacts: { error_summary: "first\nsecond\n" },
    });
  }
  await run.cancel();
  return run;
}

describe("a run that ended", () => {
  test("is forked at an earlier record; the fork is compared and verified", async () => {
    const run = await ended();
    await expect(run.fork()).rejects.toMatchObject({ reason: "FORK_TERMINAL" });
    const options = {
      atSeq: 2,
      id: "f1",
      artifacts: { error_summary: "first\n2nd\n" },
      labels: { why: "repair" },
    };
    const copy = await run.fork(options);
    expect((await run.fork(options)).id).toBe(copy.id);
    const info = await copy.info();
    expect(info.forkedFrom).toMatchObject({ runId: run.id, seq: 2 });
    expect(info.totalVisits).toBe(0);
    const diff = await run.diff({ other: copy.id });
    expect(diff.artifacts[0]?.text).toContain("-second\n+2nd\n");
    expect(diff.commonPath).toBe(2);
    expect(await copy.verify()).toMatchObject({ ok: true, records: 1, badSeq: 0 });
  });

  test("can be deleted once, and cannot be read afterwards", async () => {
    const run = await ended();
    const { hash } = await run.verify();
    expect(await run.delete()).toMatchObject({ duplicate: false, hash });
    expect(await run.delete()).toMatchObject({ duplicate: true });
    await expect(run.info()).rejects.toMatchObject({ reason: "RUN_DELETED" });
  });

  test("can be erased if its pack permits it, and then returns no values", async () => {
    const plain = await ended();
    await expect(plain.erase("why")).rejects.toMatchObject({ reason: "RUN_NOT_ERASABLE" });
    const pack = JSON.parse(readFileSync(SELF_CORRECTING, "utf8"));
    pack.id = "erasable";
    pack.workflow.engine = { x_pawl: { erasable: true } };
    await shared.client.registerPack(JSON.stringify(pack));
    const run = await shared.client.open("erasable", { labels: { was: "first" } });
    await expect(run.erase("early")).rejects.toMatchObject({ reason: "RUN_NOT_ENDED" });
    await run.cancel();
    const { hash } = await run.verify();
    expect(await run.erase("asked")).toMatchObject({
      duplicate: false,
      hash,
      erasure: { reason: "asked" },
    });
    expect(await run.erase("again")).toMatchObject({ duplicate: true });
    expect((await run.info()).labels).toEqual({ was: "first" });
    await expect(run.fork({ atSeq: 1 })).rejects.toMatchObject({ reason: "RUN_ERASED" });
    expect(await run.variables()).toEqual({});
  });

  test("is exported; the file is refused by the same store, and if it was edited", async () => {
    const run = await ended();
    const file = await run.exportFile();
    expect(new TextDecoder().decode(file.subarray(0, 7))).toBe("PAWLRUN");
    await expect(shared.client.importRun(file)).rejects.toMatchObject({ reason: "RUN_EXISTS" });
    const edited = Uint8Array.from(file);
    edited[file.length - 60] = (edited[file.length - 60] ?? 0) ^ 1;
    const refused = await shared.client.importRun(edited).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(PawlError);
    expect(refused).toMatchObject({ reason: "EXPORT_INVALID" });
    await expect(shared.client.importRun(new Uint8Array())).rejects.toMatchObject({
      reason: "EXPORT_TRUNCATED",
    });
  });
});
