/** A recorded model: the agent runs without a key, in tests and in `pawl dev`. */

import { PawlError, type Reply, type Turn, textOf } from "pawl-client";

/** Answers as a model would: it calls tools, names an event, or says a text. */
export async function model(turn: Turn): Promise<Reply> {
  if (turn.terminal) {
    return { output: turn.systemPrompt.trim() };
  }
  const numbers = textOf(turn.messages.at(-1)?.parts ?? []).match(/\d+/g) ?? ["17", "150"];
  try {
    const payload = { order: numbers[0] ?? "17", amount: Number(numbers.at(-1)) };
    const receipt = await turn.step<string>("refund", payload);
    return { event: "Refunded", artifacts: { receipt } };
  } catch (error) {
    if (error instanceof PawlError && error.reason === "DENIED") {
      return { event: "Refused" };
    }
    throw error;
  }
}
