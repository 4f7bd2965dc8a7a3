/**
 * Makes programs of the Vercel AI SDK durable: `generateText`, `streamText` and agents of `ai` 6 and
 * 7. Each answer of a model and each tool call is recorded before the program receives it. A program
 * that is killed and started again with the same `requestId` continues with the recorded ones.
 *
 *     import { openai } from "@ai-sdk/openai";
 *     import { generateText, stepCountIs, tool } from "ai";
 *     import { PawlClient } from "pawl-client";
 *     import { agent, bounds } from "pawl-client/ai-sdk";
 *     import { z } from "zod";
 *
 *     const tools = {
 *       weather: tool({
 *         description: "Reads the weather in a city.",
 *         inputSchema: z.object({ city: z.string() }),
 *         execute: async ({ city }) => `sunny in ${city}`,
 *       }),
 *     };
 *     using client = new PawlClient();
 *     const limits = bounds({ maxToolCalls: 10 });
 *     const { text } = await agent(
 *       client,
 *       { name: "forecast", requestId: "question-17", tools, bounds: limits },
 *       (durable) =>
 *         generateText({
 *           model: durable.model(openai("gpt-5-mini")),
 *           tools: durable.tools,
 *           stopWhen: stepCountIs(5),
 *           prompt: "What is the weather in Oslo?",
 *         }),
 *     );
 *     console.log(text);
 */

export { type AgentOptions, agent, type Durable, type DurableAnswer } from "./ai_agent.js";
export type { AnyModel } from "./ai_model.js";
export {
  type AgentPack,
  type AgentPackOptions,
  agentPack,
  type Bounds,
  type BoundsOptions,
  bounds,
  type Price,
} from "./ai_pack.js";
export { currentCall } from "./ai_scope.js";
