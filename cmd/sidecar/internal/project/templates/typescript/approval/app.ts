/** The worker of my-agent: its model and its tools. `pawl dev` starts it. */

import { pathToFileURL } from "node:url";
import { type Json, PawlClient, type ToolCall } from "pawl-client";
import { model } from "./model.js";

const PAID = new Map<string, string>();

/** Refunds an order, once for each key. Hand the key on to your payment provider. */
function refund(payload: Json, call: ToolCall): string {
  const { order, amount } = payload as { order: string; amount: number }; // the pack's schema was checked before
  const receipt = PAID.get(call.idempotencyKey) ?? `${amount.toFixed(2)} for order ${order}`;
  PAID.set(call.idempotencyKey, receipt);
  return receipt;
}

export const tools = { refund };

// Only as a program; tests import this file.
if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  using client = new PawlClient(); // PAWL_ADDR is the sidecar
  // A turn whose call waits for a person is released after two seconds, so that it keeps no place.
  const worker = client.worker({ turns: 4, steps: 4, suspendAfterMs: 2_000 });
  worker.prompt("*", await model());
  for (const [name, tool] of Object.entries(tools)) {
    worker.tool(name, tool);
  }
  await worker.run();
}
