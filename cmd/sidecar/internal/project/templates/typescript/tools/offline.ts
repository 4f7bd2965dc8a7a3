/** A recorded model: the agent runs without a key, in tests and in `pawl dev`. */

import { type Reply, type Turn, textOf } from "pawl-client";

/** Answers as a model would: it calls tools, names an event, or says a text. */
export async function model(turn: Turn): Promise<Reply> {
  if (turn.state === "answer") {
    return { output: turn.systemPrompt.trim() };
  }
  if (turn.state === "apologize") {
    return { output: "I cannot find that order." };
  }
  const order = textOf(turn.messages.at(-1)?.parts ?? []).match(/\d+/)?.[0];
  const status = order ? await turn.step<string>("order_status", { order }) : "unknown";
  return status === "unknown" ? { event: "Unknown" } : { event: "Found", artifacts: { status } };
}
