// Measures what pawl-client/ai-sdk adds to a model call: generateText with a model that answers at
// once, bare and durable in turn, against a sidecar of its own. Needs dist/ and PAWL_SIDECAR; an
// argument is the number of calls, default 500. Prints milliseconds.
import { generateText } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { agent } from "../dist/esm/ai_sdk.js";
import { Sidecar } from "../dist/esm/testing.js";

const calls = Number(process.argv[2] ?? 500);
const usage = {
  inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 5, text: 5, reasoning: 0 },
};
const model = new MockLanguageModelV4({
  doGenerate: async () => ({
    content: [{ type: "text", text: "yes" }],
    finishReason: { unified: "stop", raw: "stop" },
    usage,
    warnings: [],
  }),
});

async function timed(own, times) {
  const begun = performance.now();
  await generateText({ model: own, prompt: "Is it so?" });
  times.push(performance.now() - begun);
}

function figures(times) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.floor(sorted.length * share)].toFixed(2);
  return `p50 ${at(0.5)}  p90 ${at(0.9)}  p99 ${at(0.99)}`;
}

const sidecar = await Sidecar.start();
const client = sidecar.client();
const [bare, durable] = [[], []];
await agent(client, { name: "overhead" }, async (own) => {
  const recorded = own.model(model);
  for (let warm = 0; warm < 100; warm += 1) {
    await timed(model, []);
    await timed(recorded, []);
  }
  for (let nth = 0; nth < calls; nth += 1) {
    await timed(model, bare);
    await timed(recorded, durable);
  }
});
console.log(`bare     ${figures(bare)}`);
console.log(`durable  ${figures(durable)}`);
client.close();
await sidecar.close();
