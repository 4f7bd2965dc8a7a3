/** The model of the agent: a real one with a key, else the recorded one. */

import type { LanguageModel } from "ai";
import { recorded } from "./offline.js";

/** A model object of the AI SDK. */
export type Model = Exclude<LanguageModel, string>;

/** Returns the model by the environment: OPENAI_API_KEY, and MODEL for another one than the default. */
export async function model(): Promise<Model> {
  if (!process.env.OPENAI_API_KEY) {
    return recorded();
  }
  const { openai } = await import("@ai-sdk/openai");
  return openai(process.env.MODEL ?? "gpt-5-mini");
}
