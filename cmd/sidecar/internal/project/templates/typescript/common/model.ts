/** The model that executes the prompts: a real one with a key, else the recorded one. */

import type { Reply, Turn } from "pawl-client";
import { model as recorded } from "./offline.js";

/** A function that executes a turn. */
export type Model = (turn: Turn) => Promise<Reply>;

/** Returns the model by the environment: OPENAI_API_KEY, and MODEL for another one than the default. */
export async function model(): Promise<Model> {
  if (!process.env.OPENAI_API_KEY) {
    return recorded;
  }
  const { openai } = await import("@ai-sdk/openai");
  const { modelHandler } = await import("pawl-client/models");
  return modelHandler(openai(process.env.MODEL ?? "gpt-5-mini"));
}
