/** The tool call that a handler makes. */

import { PawlError } from "./errors.js";
import type { Usage } from "./reply.js";

/** The tool call that a handler makes now. The payload cannot override these. */
export interface ToolCall {
  readonly runId: string;
  readonly step: number;
  readonly tool: string;
  readonly attempt: number;
  /** Unique in the visit. */
  readonly key: string;
  /**
   * "RUN/STEP", the same for every attempt of the call: pass it to the system that the tool changes, so that
   * an attempt after one with an answer that was lost, came too late or was an error has
   * no second effect there. Not `attempt`, which rises exactly then.
   */
  readonly idempotencyKey: string;
  readonly turnSeq: number;
  /** When its outcome counts as unknown. */
  readonly deadline: Date | undefined;
  /** Aborted when the call is not wanted any more, or its time is up. */
  readonly signal: AbortSignal;
  /**
   * Says what this attempt really consumed, to be told with its answer, be it a result or an
   * error; a later word takes the place of an earlier one. Without a word it counts as what
   * the pack says that an attempt costs at most (x_pawl.tools.NAME.cost).
   *
   *     worker.tool("search", async (payload, call) => {
   *       const answer = await fetch("https://search.example", { signal: call.signal });
   *       call.spent({ costMicroUsd: Number(answer.headers.get("x-price")) });
   *       return { hits: await answer.text() };
   *     });
   *
   * Throws a PawlError of kind "request" (BAD_USAGE) for figures that the sidecar would refuse.
   */
  spent(usage: Usage): void;
}

/** What a call is, but for what its handler says of it. */
export type CallFacts = Omit<ToolCall, "spent">;

/** A call, and what was said by `spent` so far. */
export class Spending {
  usage: Usage | undefined;
  readonly call: ToolCall;

  constructor(facts: CallFacts) {
    const spent = (usage: Usage) => {
      check(usage);
      this.usage = usage;
    };
    // The signal of the facts may be one that changes: it is asked each time.
    this.call = Object.freeze({
      ...facts,
      get signal() {
        return facts.signal;
      },
      spent,
    });
  }
}

const MOST = 1e12;
const MAX_CALLS = 1e6;

/** Refuses what the sidecar would refuse: it would refuse the answer with it. */
function check(usage: Usage): void {
  const { inputTokens = 0, outputTokens = 0, costMicroUsd = 0, toolCalls = 0 } = usage;
  const bounds: [name: string, value: number, most: number][] = [
    ["inputTokens", inputTokens, MOST],
    ["outputTokens", outputTokens, MOST],
    ["costMicroUsd", costMicroUsd, MOST],
    ["toolCalls", toolCalls, MAX_CALLS],
    ["cachedTokens", usage.cachedTokens ?? 0, inputTokens],
    ["reasoningTokens", usage.reasoningTokens ?? 0, outputTokens],
  ];
  for (const [name, value, most] of bounds) {
    if (!Number.isInteger(value) || value < 0 || value > most) {
      throw refused(name, `must be a whole number from 0 to ${most}, not ${value}`);
    }
  }
  if (new TextEncoder().encode(usage.model ?? "").length > 256) {
    throw refused("model", "must have at most 256 bytes");
  }
}

function refused(field: string, what: string): PawlError {
  return new PawlError("request", `usage.${field}: ${what}`, {
    reason: "BAD_USAGE",
    metadata: { field },
  });
}
