/**
 * Executes turns by a model of the AI SDK. See `modelHandler`.
 *
 *     import { anthropic } from "@ai-sdk/anthropic";
 *     import { PawlClient } from "pawl-client";
 *     import { modelHandler } from "pawl-client/models";
 *
 *     using client = new PawlClient();
 *     const handler = modelHandler(anthropic("claude-sonnet-4-5"));
 *     await client.run("my-pack", handler, { tools: { run_tests: () => ({ passed: true }) } });
 */

export type { LanguageModel } from "./language_model.js";
export { type ModelHandler, type ModelOptions, modelHandler } from "./model_handler.js";
export type {
  ModelAnswer,
  ModelAsk,
  ModelCall,
  ModelFailure,
  ModelMessage,
  ModelOutcome,
  ModelReport,
  ModelRequest,
  ModelRound,
  ModelView,
  ProviderLimits,
  ToolCallRef,
} from "./model_step.js";
export type { Output, ValueOf } from "./output_schema.js";
