/** The tool call that a handler makes. */

import { PawlError } from "./errors.js";
import type { Usage } from "./reply.js";

/** The tool call that a handler makes. The payload cannot override its fields. */
export interface ToolCall {
  readonly runId: string;
  readonly step: number;
  readonly tool: string;
  readonly attempt: number;
  /** Key of the call, unique in the visit. */
  readonly key: string;
  /**
   * "RUN/STEP", the same for every attempt of the call. Pass it to the system that the tool
   * changes, so that a repeated attempt has no second effect there. Do not use `attempt` for this:
   * it grows with each repetition.
   */
  readonly idempotencyKey: string;
  readonly turnSeq: number;
  /** When the outcome of the call counts as unknown. Undefined means that it has no deadline. */
  readonly deadline: Date | undefined;
  /** Aborted when the result is not needed any longer, or the time is over. */
  readonly signal: AbortSignal;
  /**
   * Reports what this attempt consumed, whether it ends with a result or an error; a later call
   * replaces an earlier one. Default: the pack's highest cost of an attempt
   * (x_pawl.tools.NAME.cost).
   *
   *     worker.tool("search", async (payload, call) => {
   *       const answer = await fetch("https://search.example", { signal: call.signal });
   *       call.spent({ costMicroUsd: Number(answer.headers.get("x-price")) });
   *       return { hits: await answer.text() };
   *     });
   *
   * Throws a PawlError of kind "request" (BAD_USAGE) for values that the sidecar would refuse.
   */
  spent(usage: Usage): void;
}

/** The call without the function that its handler calls. */
export type CallFacts = Omit<ToolCall, "spent">;

/** A call, and the consumption that `spent` reported last. */
export class Spending {
  usage: Usage | undefined;
  readonly call: ToolCall;

  constructor(facts: CallFacts) {
    const spent = (usage: Usage) => {
      check(usage);
      this.usage = usage;
    };
    // The signal of the facts may change, so it is read each time.
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

/** Refuses what the sidecar would refuse, which would refuse the answer as well. */
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
