/** Models of the AI SDK's providers, of `ai` 7 and of `ai` 6, at an endpoint of a spec. */

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createAnthropic as createAnthropic6 } from "ai-sdk-anthropic-6";
import { createOpenAICompatible as createOpenAICompatible6 } from "ai-sdk-compatible-6";
import { createOpenAI as createOpenAI6 } from "ai-sdk-openai-6";
import type { LanguageModel } from "./language_model.js";
import { type ModelOptions, modelHandler } from "./model_handler.js";
import type { UntypedHandler } from "./turn.js";

/** What models have as their key. */
export const KEY = "sk-secret";

/** A model at a base URL. */
export type ModelAt = (baseURL: string, modelId?: string) => LanguageModel;

const compatible = { name: "endpoint", includeUsage: true, supportsStructuredOutputs: true };

type Form = "chat completions" | "responses" | "messages";

/** The form of an endpoint, by the provider of `ai` 7 and by that of `ai` 6. */
export const MODELS: { readonly [form in Form | `${Form} of ai 6`]: ModelAt } = {
  "chat completions": (baseURL, modelId = "m") =>
    createOpenAICompatible({ ...compatible, baseURL, apiKey: KEY })(modelId),
  responses: (baseURL, modelId = "m") => createOpenAI({ baseURL, apiKey: KEY }).responses(modelId),
  messages: (baseURL, modelId = "m") => createAnthropic({ baseURL, apiKey: KEY })(modelId),
  "chat completions of ai 6": (baseURL, modelId = "m") =>
    createOpenAICompatible6({ ...compatible, baseURL, apiKey: KEY })(modelId),
  "responses of ai 6": (baseURL, modelId = "m") =>
    createOpenAI6({ baseURL, apiKey: KEY }).responses(modelId),
  "messages of ai 6": (baseURL, modelId = "m") =>
    createAnthropic6({ baseURL, apiKey: KEY })(modelId),
};

/** A handler that asks chat completions. */
export function chat(url: string, options: ModelOptions = {}): UntypedHandler {
  return modelHandler(MODELS["chat completions"](url), options);
}
