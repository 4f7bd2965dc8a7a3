/** Pieces of output and their offsets. */

import { expect, test } from "vitest";
import { PawlError } from "./errors.js";
import { TurnOutput } from "./turn_output.js";

/** Takes pieces as a sidecar does. */
class Receiver {
  bytes = Buffer.alloc(0);
  largest = 0;

  readonly take = async ({ offset, text }: { offset: number; text: string }) => {
    if (offset > this.bytes.length) {
      const metadata = { limit: String(this.bytes.length) };
      throw new PawlError("request", "a gap", { reason: "CHUNK_GAP", metadata });
    }
    const piece = Buffer.from(text);
    this.largest = Math.max(this.largest, piece.length);
    this.bytes = Buffer.concat([this.bytes.subarray(0, offset), piece]);
  };
}

test("large text goes in pieces with whole characters", async () => {
  const receiver = new Receiver();
  const text = "ä😀x".repeat(40_000);
  await new TurnOutput(receiver.take).write(text);
  expect(receiver.bytes.toString()).toBe(text);
  expect(receiver.largest).toBeLessThanOrEqual(64 * 1024);
});

test.each([[0], [3], [7]])("what was forgotten from byte %i on is told again", async (kept) => {
  const receiver = new Receiver();
  const output = new TurnOutput(receiver.take);
  await Promise.all(["abc", "defg"].map((text) => output.write(text)));
  receiver.bytes = receiver.bytes.subarray(0, kept);
  await output.write("h");
  expect(receiver.bytes.toString()).toBe("abcdefgh");
});

test("a failed piece fails its writer, and is sent with the next one", async () => {
  const receiver = new Receiver();
  let fails = 1;
  const output = new TurnOutput(async (piece) => {
    if (fails-- > 0) {
      throw new PawlError("unavailable", "away");
    }
    await receiver.take(piece);
  });
  await expect(output.write("a")).rejects.toMatchObject({ kind: "unavailable" });
  await output.write("b");
  expect(receiver.bytes.toString()).toBe("ab");
});

test("what the model thinks is marked, and is taken back with what it says", async () => {
  const sent: string[] = [];
  const output = new TurnOutput(async ({ text, reasoning, reset }) => {
    sent.push(`${reset ? "reset " : ""}${reasoning ? "thinks" : "says"} ${text}`);
  });
  await output.write("a", true);
  await output.write("b");
  await output.write("c", true);
  await output.retract(2);
  expect(sent).toEqual(["thinks a", "says b", "thinks c", "reset thinks a"]);
});
