/** Consumers over SIGKILLs of the sidecar, and the documented check of a webhook. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { all, STEPS, useSidecar } from "./fixture.js";
import type { Record, Run } from "./index.js";
import { Sidecar } from "./testing.js";

const shared = useSidecar();

async function write(run: Run, transitions: number): Promise<void> {
  let turnToken = (await run.turn()).turn?.token;
  for (let done = 0; done < transitions; done += 1) {
    turnToken = (await run.emit("Again", { turnToken })).turn?.token;
  }
}

async function some(records: AsyncGenerator<Record>, count: number): Promise<Record[]> {
  const out: Record[] = [];
  while (out.length < count) {
    const { value, done } = await records.next();
    if (done) {
      break;
    }
    out.push(value);
  }
  return out;
}

const seqs = (records: readonly Record[]) => records.map((record) => record.seq);

test("a consumer goes on where it acknowledged, over kills", async () => {
  const sidecar = await Sidecar.start({ packs: [STEPS] });
  const writer = sidecar.client();
  try {
    await write(await writer.open("steps", { variables: { n: 1 } }), 11);
    const whole = await all(writer.transitions(undefined, { follow: false }));
    for (let read = 0; read < whole.length; read += 3) {
      using client = sidecar.client();
      const records = client.consume("billing");
      const four = await some(records, Math.min(4, whole.length - read));
      // The fourth is not acknowledged: it comes again.
      expect(seqs(four)).toEqual(seqs(whole.slice(read, read + four.length)));
      await client.ack("billing", whole[read + 2] as Record);
      await sidecar.restart();
    }
    expect(await all(writer.consume("billing", { follow: false }))).toEqual([]);
    expect((await writer.listConsumers()).map(({ consumer }) => consumer)).toEqual(["billing"]);
  } finally {
    writer.close();
    await sidecar.close();
  }
});

test("what is refused", async () => {
  const { client } = shared;
  await write(await client.open("steps", { variables: { n: 1 } }), 3);
  const records = client.consume("refused");
  const [first, second] = (await some(records, 2)) as [Record, Record];
  await client.ack("refused", second);
  await client.ack("refused", second.cursor);
  await expect(client.ack("refused", first)).rejects.toMatchObject({ reason: "CURSOR_BEHIND" });
  const newer = client.consume("refused");
  await some(newer, 1);
  await expect(all(records)).rejects.toMatchObject({ reason: "CONSUMER_REPLACED" });
  await client.deleteConsumer("refused");
  await expect(all(newer)).rejects.toMatchObject({ reason: "CONSUMER_NOT_FOUND" });
  await expect(client.ack("refused", second)).rejects.toMatchObject({ kind: "not_found" });
});

type Verify = (s: string, h: { [name: string]: string }, b: Uint8Array, t?: number) => void;

/** `verify` of docs/guides/webhooks.md. */
async function documented(): Promise<Verify> {
  const page = fileURLToPath(new URL("../../../docs/guides/webhooks.md", import.meta.url));
  const source = /```ts\n(import \{ createHmac[\s\S]*?)```/.exec(readFileSync(page, "utf8"))?.[1];
  const dir = mkdtempSync(join(tmpdir(), "pawl-"));
  try {
    const file = join(dir, "verify.ts");
    writeFileSync(file, source ?? "");
    return (await import(/* @vite-ignore */ file)).verify;
  } finally {
    rmSync(dir, { recursive: true });
  }
}

test("the documented verification", async () => {
  // The example of Standard Webhooks, whose time is of 2021.
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const body = new TextEncoder().encode('{"test": 2432232314}');
  const headers = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  };
  const verify = await documented();
  const ever = Date.now();
  verify(secret, headers, body, ever);
  expect(() => verify(secret, headers, body)).toThrow("old");
  expect(() => verify(secret, { ...headers, "webhook-timestamp": "x" }, body, ever)).toThrow("old");
  for (const [key, head, bytes] of [
    [secret, headers, new Uint8Array()],
    [secret, { ...headers, "webhook-id": "msg_2" }, body],
    [`whsec_${btoa("another key of some length")}`, headers, body],
  ] as const) {
    expect(() => verify(key, head, bytes, ever)).toThrow("wrong signature");
  }
});
