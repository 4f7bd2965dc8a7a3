/** The worker of my-agent: its model and its tools. `pawl dev` starts it. */

import { pathToFileURL } from "node:url";
import { type Json, PawlClient } from "pawl-client";
import { model } from "./model.js";

const ORDERS: Record<string, string> = { "17": "shipped on Monday", "18": "in the warehouse" };

/** Returns the state of an order. Replace this by your own system. */
function orderStatus(payload: Json): string {
  const { order } = payload as { order: string }; // the pack's schema was checked before
  return ORDERS[order] ?? "unknown";
}

export const tools = { order_status: orderStatus };

// Only as a program; tests import this file.
if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  using client = new PawlClient(); // PAWL_ADDR is the sidecar
  const worker = client.worker({ turns: 4, steps: 4 });
  worker.prompt("*", await model());
  for (const [name, tool] of Object.entries(tools)) {
    worker.tool(name, tool);
  }
  await worker.run();
}
