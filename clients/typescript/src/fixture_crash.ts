/**
 * A process that executes runs by a model and is killed in the midst of it: a worker, one whose
 * model answers in the background, or an app that drives runs of its own. Arguments: what it is, the sidecar's address, the URL
 * of the endpoint, and for an app the request ids of its runs.
 */

import OpenAI from "openai";
import { type Json, PawlClient, type ToolCall } from "./index.js";
import { chatHandler, responsesHandler } from "./openai.js";

const [role = "", address = "", url = "", ...requestIds] = process.argv.slice(2);
const quiet = { info: () => undefined, warn: () => undefined };
const client = new PawlClient({ address, log: quiet });
const endpoint = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const handler =
  role === "background"
    ? responsesHandler(endpoint, { model: "m", background: true })
    : chatHandler(endpoint, { model: "m" });

/** Has its effect elsewhere, under the key of the call. */
async function charge(payload: Json, { idempotencyKey }: ToolCall): Promise<Json> {
  const body = JSON.stringify({ payload, idempotencyKey });
  const response = await fetch(`${url}/ledger`, { method: "POST", body });
  return (await response.json()) as Json;
}

if (role === "background") {
  await client
    .worker({ packs: ["steps"] })
    .prompt("*", handler)
    .run();
} else if (role === "worker") {
  const worker = client.worker({ packs: ["shop"], turns: 3, steps: 6 });
  await worker.prompt("*", handler).tool("charge", charge).run();
} else {
  const runs = requestIds.map((requestId) => {
    return client.run("shop", handler, {
      requestId,
      tools: { charge },
      variables: { name: requestId },
    });
  });
  await Promise.all(runs);
  client.close();
}
