/**
 * A process that executes runs with a model until a test kills it: a worker, or an app that drives
 * runs of its own. Arguments: "worker" or "app", the sidecar's address, the URL of the model's
 * endpoint, and for an app the request ids of its runs.
 */

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { type Json, PawlClient, type ToolCall } from "./index.js";
import { modelHandler } from "./model_handler.js";

const [role = "", address = "", url = "", ...requestIds] = process.argv.slice(2);
const quiet = { info: () => undefined, warn: () => undefined };
const client = new PawlClient({ address, log: quiet });
const endpoint = createOpenAICompatible({ name: "endpoint", baseURL: `${url}/v1` });
const handler = modelHandler(endpoint("m"));

/** The tool: it sends the idempotency key of the call to the ledger of the test. */
async function charge(payload: Json, { idempotencyKey }: ToolCall): Promise<Json> {
  const body = JSON.stringify({ payload, idempotencyKey });
  const response = await fetch(`${url}/ledger`, { method: "POST", body });
  return (await response.json()) as Json;
}

if (role === "worker") {
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
