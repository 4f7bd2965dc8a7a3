/** A recorded model: the agent runs without a key, in tests and in `pawl dev`. */

import type { Reply, Turn } from "pawl-client";

/** Answers as a model would: an event that the state allows, or a text. */
export async function model(turn: Turn): Promise<Reply> {
  if (turn.state === "write") {
    return { event: "Written", artifacts: { draft: `This is draft ${turn.visit}.` } };
  }
  if (turn.state === "criticize") {
    return turn.visit < 2 ? { event: "Weak", artifacts: { review: "Say more." } } : { event: "Good" };
  }
  return { output: turn.systemPrompt.trim() };
}
