/** 8.22: what a turn writes under way reaches who sent the A2A message, as it is written. */

import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { all, Gate, STEPS, useSidecar, useWorkers } from "./fixture.js";
import { RecordKind } from "./index.js";

const WRITERS = fileURLToPath(new URL("../../python/tests/agents.pack.json", import.meta.url));
const shared = useSidecar({ packs: [WRITERS, STEPS], flags: ["--http=127.0.0.1:0"] });
const serve = useWorkers();

interface Update {
  readonly append?: boolean;
  readonly artifact: { readonly artifactId: string; readonly parts: { readonly text?: string }[] };
}

/** What SendStreamingMessage over JSON-RPC tells of artifacts, event by event. */
async function* updates(): AsyncGenerator<Update, void, undefined> {
  const message = { messageId: "m", role: "ROLE_USER", parts: [{ text: "Write." }] };
  const call = { jsonrpc: "2.0", id: 1, method: "SendStreamingMessage", params: { message } };
  const answer = await fetch(`http://${shared.sidecar.http}/a2a/agents/writer`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "A2A-Version": "1.0" },
    body: JSON.stringify(call),
  });
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of answer.body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines.filter((one) => one.startsWith("data:"))) {
      const { artifactUpdate } = JSON.parse(line.slice(5)).result;
      if (artifactUpdate) {
        yield artifactUpdate;
      }
    }
  }
}

test("reaches the sender", async () => {
  // The sender has a piece: only then the next is written.
  const seen = [1, 2, 3, 4].map(() => new Gate());
  const worker = shared.client.worker({ packs: ["agents"] }).agent("writer", async (turn) => {
    await turn.writeOutput({ id: "draft", parts: "part 1. " });
    await seen[0]?.opened;
    await turn.writeOutput({ id: "draft", parts: "part 2. ", append: true });
    await seen[1]?.opened;
    await turn.output("so far, ", { durable: true });
    await seen[2]?.opened;
    await turn.output("so good", { durable: true });
    await seen[3]?.opened;
    return { output: "All." };
  });
  serve(worker);
  const found: unknown[] = [];
  for await (const { artifact, append = false } of updates()) {
    const text = artifact.parts.map((part) => part.text).join("");
    seen[found.length]?.open();
    found.push([artifact.artifactId, text, append]);
  }
  expect(found).toEqual([
    ["draft", "part 1. ", false],
    ["draft", "part 2. ", true],
    ["output", "so far, ", false],
    ["output", "so good", true],
    ["output", "All.", false],
  ]);
});

test("is kept of a run that is driven here", async () => {
  const result = await shared.client.run(
    "steps",
    async (turn) => {
      if (!turn.terminal) {
        await turn.output("those who watch see this");
        await turn.output("kept", { durable: true });
        await turn.writeOutput({ id: "x", parts: "also kept", last: true });
      }
      return turn.terminal ? {} : { event: "Done" };
    },
    { variables: { n: 1 } },
  );
  const kinds = [RecordKind.OUTPUT_WRITTEN];
  const records = shared.client.attach(result.run.runId).records({ kinds });
  expect(await all(records)).toHaveLength(2);
});
