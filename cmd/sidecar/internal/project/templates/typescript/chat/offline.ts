/** A recorded model: the agent runs without a key, in tests and in `pawl dev`. */

import { type Reply, type Turn, textOf } from "pawl-client";

/** Answers as a model would: an event that the state allows, or a text. */
export async function model(turn: Turn): Promise<Reply> {
  if (turn.state === "close") {
    return { output: "Goodbye!" };
  }
  const said = textOf(turn.messages.at(-1)?.parts ?? []);
  if (said.toLowerCase().includes("bye")) {
    return { event: "Goodbye" };
  }
  return { output: `You said: ${said}` };
}
