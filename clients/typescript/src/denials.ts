/** Warnings of tool calls that the policy of tools denied. Without them only the model knows. */

import type { StepOutcome } from "./gen/pawl/v1/run_pb.js";
import type { Log } from "./log.js";
import type { Plain } from "./plain_message.js";

const POLICY = ["TOOL_NOT_ALLOWED", "TOOL_BLOCKED"];
const MOST = 10_000;

/** Warns of each tool that the operator or the pack denies, once for each pack and tool. */
export class Denials {
  readonly #log: Log;
  readonly #warned = new Set<string>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Checks the outcomes of the calls of a run of a pack. */
  take(
    pack: string,
    calls: readonly { readonly tool: string }[],
    outcomes: readonly Plain<StepOutcome>[],
  ): void {
    for (const [at, { denial }] of outcomes.entries()) {
      const tool = calls[at]?.tool ?? "";
      if (denial && POLICY.includes(denial.code) && this.#first(`${pack} ${tool}`)) {
        // The sidecar's message does not name the flag that permits the tool.
        const silent = denial.code === "TOOL_NOT_ALLOWED" && !denial.message.includes(FLAG);
        const remedy = silent ? ` (serve the sidecar of that run with ${FLAG} ${tool})` : "";
        const why = `${denial.code}: ${denial.message}${remedy}`;
        this.#log.warn(`pack ${pack}: tool ${tool} is denied: ${why}`);
      }
    }
  }

  #first(key: string): boolean {
    if (this.#warned.has(key)) {
      return false;
    }
    if (this.#warned.size >= MOST) {
      this.#warned.clear();
    }
    this.#warned.add(key);
    return true;
  }
}

const FLAG = "--allow-tool";
