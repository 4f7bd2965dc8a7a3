/**
 * The first example of the repository's README, as this client runs it, with one option more of its
 * tool: a person approves each charge. The tool's own ledger is the judge.
 */

import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { all, useSidecar } from "./fixture.js";
import { chat } from "./fixture_models.js";
import { type Calling, chatEvents, Provider } from "./fixture_provider.js";
import { type Json, RunStatus, StepDecision, type ToolCall, WaitUntil } from "./index.js";

const shared = useSidecar({ packs: [], allowTools: ["charge"] });
const file = new URL("../../../examples/quickstart-python/shop.pack.yaml", import.meta.url);
const OPTIONS = "charge: {dedupe:";
const HELD = "charge: {approve: always, dedupe:";

/** The pack of the example under a name of its own, with the option. */
function heldShop(id: string): string {
  const text = readFileSync(fileURLToPath(file), "utf8");
  expect(text.split(OPTIONS)).toHaveLength(2);
  return text.replace("id: shop\n", `id: ${id}\n`).replace(OPTIONS, HELD);
}

const call = (name: string, given: object): Calling => ({ id: `call-${name}`, name, given });

test.each([
  ["approves", StepDecision.APPROVE, 1],
  ["denies", StepDecision.DENY, 0],
])("nothing is charged before a person %s", async (word, decision, charges) => {
  const directory = mkdtempSync(join(tmpdir(), "readme-"));
  const ledger = join(directory, "ledger");
  writeFileSync(ledger, "");
  const id = `shop-${word}`;
  await shared.client.registerPack(heldShop(id), { filename: "shop.pack.yaml" });
  await using provider = await Provider.start(
    chatEvents("", call("charge", { order: word })),
    chatEvents("", call("leave_state", { event: "Sold", artifacts: { receipt: "charged" } })),
    chatEvents("Thank you."),
  );
  const charge = (payload: Json, { idempotencyKey }: ToolCall) => {
    appendFileSync(ledger, `${idempotencyKey}\n`);
    return `charged ${(payload as { order: string }).order} under ${idempotencyKey}`;
  };
  const begin = { requestId: `order-17-${word}`, input: "Order 17, please." };
  const run = await shared.client.open(id, begin);
  const options = { ...begin, tools: { charge } };
  const result = shared.client.run(id, chat(provider.url), options);
  const waited = await run.wait({ until: WaitUntil.WAITING, waitMs: 60_000 });
  expect(waited.timedOut).toBe(false);
  const [held] = await all(shared.client.listApprovals({ runId: run.id }));
  expect(readFileSync(ledger, "utf8")).toBe("");
  await run.decideStep(held?.call?.step ?? 0, held?.call?.approval?.digest ?? "", decision);
  const { status, artifacts } = await result;
  expect([status, artifacts]).toEqual([RunStatus.COMPLETED, { receipt: "charged" }]);
  expect(readFileSync(ledger, "utf8")).toBe(`${held?.call?.idempotencyKey}\n`.repeat(charges));
  rmSync(directory, { recursive: true });
});
