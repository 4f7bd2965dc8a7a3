/** A durable agent of the AI SDK: npm run app [QUESTION [ID]]. `pawl dev` starts it. */

import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";
import { generateText, stepCountIs, tool } from "ai";
import { PawlClient } from "pawl-client";
import { agent, bounds, currentCall } from "pawl-client/ai-sdk";
import { z } from "zod";
import { type Model, model } from "./model.js";

const ORDERS: Record<string, string> = { "17": "shipped on Monday", "18": "in the warehouse" };
const PAID = new Map<string, string>();

const tools = {
  order_status: tool({
    description: "Returns the state of an order.", // Replace this by your own system.
    inputSchema: z.object({ order: z.string() }),
    execute: async ({ order }) => ORDERS[order] ?? "unknown",
  }),
  refund: tool({
    description: "Refunds an order.",
    inputSchema: z.object({ order: z.string(), amount: z.number() }),
    execute: async ({ order, amount }) => {
      // Once for each key. Send the key to your payment provider.
      const key = currentCall()?.idempotencyKey ?? "";
      const receipt = PAID.get(key) ?? `${amount.toFixed(2)} for order ${order}`;
      PAID.set(key, receipt);
      return receipt;
    },
  }),
};

/**
 * The sidecar enforces these. A tool in `repeat` is called again after a crash in it. Add `refund`
 * when your payment provider gets the key; until then a person looks at a refund whose outcome is
 * unknown.
 */
const limits = bounds({
  maxToolCalls: 10,
  approve: { refund: "payload.amount > 100.0" },
  repeat: ["order_status"],
});

/** Returns the agent's answer. The same id has the same answer, and continues after a crash. */
export async function ask(
  client: PawlClient,
  chat: Model,
  question: string,
  requestId: string,
): Promise<string> {
  const { text } = await agent(
    client,
    { name: "my-agent", requestId, tools, bounds: limits },
    (durable) =>
      generateText({
        model: durable.model(chat),
        tools: durable.tools,
        stopWhen: stepCountIs(5),
        system: "Answer questions about orders, and refund them.",
        prompt: question,
      }),
  );
  return text;
}

// Only as a program; tests import this file.
if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [question = "EXAMPLE_INPUT", requestId = randomUUID()] = process.argv.slice(2);
  console.log(`${question} (id ${requestId})`);
  using client = new PawlClient(); // PAWL_ADDR is the sidecar
  console.log(await ask(client, await model(), question, requestId));
}
