/**
 * A program of the AI SDK that a test kills while it runs. Arguments: the sidecar's address, the
 * URL of the test's server, the request id, and "generate", "stream", or "careful" for tools that
 * are not repeated. The exit code is 3 if the run has ended without a result.
 */

import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { agent, bounds, currentCall } from "./ai_sdk.js";
import { call, say, scripted } from "./fixture_ai.js";
import { PawlClient, PawlError } from "./index.js";

const [address = "", url = "", requestId = "", how = ""] = process.argv.slice(2);

/** Sends a request to the test, which kills this process instead if the test wants it here. */
async function outside(what: string, body: object = {}): Promise<string> {
  const response = await fetch(`${url}/${what}`, { method: "POST", body: JSON.stringify(body) });
  return response.text();
}

/** A model. Each of its answers causes a request to the test, and has other words. */
const model = scripted([
  async () => [
    say(`${await outside("model/1")} `),
    call("c1", "look_up", { word: "price" }),
    call("c2", "stock", {}),
  ],
  async () => [say(`${await outside("model/2")} `), call("c3", "charge", { amount: 50 })],
  async () => [say(await outside("model/3"))],
]);

const tools = {
  look_up: tool({
    inputSchema: z.object({ word: z.string() }),
    execute: ({ word }) => outside("look_up", { word, key: currentCall()?.idempotencyKey }),
  }),
  stock: tool({ inputSchema: z.object({}), execute: () => outside("stock", {}) }),
  charge: tool({
    inputSchema: z.object({ amount: z.number() }),
    execute: async ({ amount }) => {
      const key = currentCall()?.idempotencyKey;
      await outside("charge/before", { key });
      const receipt = await outside("charge", { amount, key });
      await outside("charge/after", { key });
      return receipt;
    },
  }),
};

const repeated = { attempts: 5, on_unknown: "retry" };
const limits = bounds({
  maxToolCalls: 10,
  tools: how === "careful" ? {} : { look_up: repeated, stock: repeated, charge: repeated },
});
const client = new PawlClient({
  address,
  log: { info: () => undefined, warn: () => undefined },
});
const options = { name: "shop-agent", requestId, tools, bounds: limits };
const stopWhen = stepCountIs(6);
try {
  const text = await (how === "stream" ? streamed() : generated());
  await outside("result", { text });
} catch (error) {
  if (!PawlError.is(error, "RUN_ENDED")) {
    throw error;
  }
  process.exitCode = 3;
} finally {
  client.close();
}

async function generated(): Promise<string> {
  const { text } = await agent(client, options, (durable) => {
    const given = { model: durable.model(model), tools: durable.tools, stopWhen };
    return generateText({ ...given, prompt: "Buy it." });
  });
  return text;
}

async function streamed(): Promise<string> {
  const answer = agent(client, options, (durable) => {
    const given = { model: durable.model(model), tools: durable.tools, stopWhen };
    return streamText({ ...given, prompt: "Buy it.", onError: () => undefined });
  });
  const result = await answer;
  for await (const { type } of result.fullStream) {
    if (type === "text-delta") {
      await outside("seen");
    }
  }
  await answer.ended;
  return result.text;
}
