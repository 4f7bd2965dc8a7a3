/**
 * A tool with a ledger of its own, and a handler that calls it. As a process it drives a run
 * that pays once; arguments: the sidecar's address, the run's request id, the ledger's path.
 */

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { type Handler, type Json, PawlClient, PawlError, type ToolCall } from "./index.js";

/** A payment as the tool wrote it down. */
export interface Line {
  readonly amount: number;
  readonly key: string;
  readonly attempt: number;
}

/** A file in which the tool writes each payment, so that a test can count the effects. */
export class Ledger {
  constructor(readonly path: string) {}

  /** One payment, written to the ledger before the tool answers. */
  pay(payload: Json, { idempotencyKey, attempt }: ToolCall): Json {
    const { amount } = payload as { amount: number };
    appendFileSync(this.path, `${JSON.stringify({ amount, key: idempotencyKey, attempt })}\n`);
    return { paid: amount };
  }

  /** What was paid, in order. */
  lines(): Line[] {
    const text = existsSync(this.path) ? readFileSync(this.path, "utf8") : "";
    return text
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Line);
  }

  amounts(): number[] {
    return this.lines().map(({ amount }) => amount);
  }

  keys(): string[] {
    return this.lines().map(({ key }) => key);
  }
}

/** A handler that pays, and records the information that it receives with each call. */
export function refunds(report: string[], ...amounts: readonly number[]): Handler {
  return async (turn) => {
    if (turn.terminal) {
      return {};
    }
    for (const amount of amounts) {
      try {
        report.push(JSON.stringify(await turn.step("refund", { amount })));
      } catch (error) {
        if (!PawlError.is(error) || !["step_failed", "step_denied"].includes(error.kind)) {
          throw error;
        }
        report.push(`${error.kind} ${error.reason}`);
      }
    }
    return { event: "Done" };
  };
}

const [address, requestId, path] = process.argv.slice(2);
if (process.argv[1]?.endsWith("fixture_paying.js") && address && path) {
  const client = new PawlClient({ address });
  const tool = (payload: Json, call: ToolCall) => new Ledger(path).pay(payload, call);
  await client.run("held", refunds([], 250), { requestId, tools: { refund: tool } });
  client.close();
}
