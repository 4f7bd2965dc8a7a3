/** A recorded model: the agents run without a key, in tests and in `pawl dev`. */

import { type Reply, type Turn, textOf } from "pawl-client";

/** What an agent answers with. */
type Answer = { readonly output: string };

/** Answers as a model would: it asks agents, names an event, or says a text. */
export async function model(turn: Turn): Promise<Reply> {
  switch (turn.prompt) {
    case "lead": {
      const message = textOf(turn.messages.at(-1)?.parts ?? []);
      const facts = await turn.step<Answer>("researcher", { message });
      const doubts = await turn.step<Answer>("skeptic", { message });
      return { event: "Ready", artifacts: { facts: facts.output, doubts: doubts.output } };
    }
    case "researcher":
      return { output: "A ratchet turns one way only." };
    case "skeptic":
      return { output: "Its teeth wear out." };
    default:
      return { output: turn.systemPrompt.trim() };
  }
}
