/** The verbs by which people control a run. */

import { type Json, type PawlClient, type Run, SteerWhen, StepDecision } from "pawl-client";
import { canon } from "./canon.js";

export interface ControlArgs {
  readonly decision?: string;
  readonly digest?: string;
  readonly payload?: Json;
  readonly reason?: string;
  /** In seconds from now. */
  readonly expires?: number;
  readonly when?: string;
  readonly text?: string;
  readonly note?: string;
  readonly step?: number;
  readonly id?: string;
  readonly max_tokens?: number;
  readonly max_cost_micro_usd?: number;
}

/** Remembers the digests of the calls that were looked at. */
export class Control {
  readonly #client: PawlClient;
  readonly #digests = new Map<string, string>();

  constructor(client: PawlClient) {
    this.#client = client;
  }

  async approvals(run: Run): Promise<unknown> {
    const approvals: unknown[] = [];
    for await (const one of this.#client.listApprovals({ runId: run.id })) {
      approvals.push(canon(one));
      this.#digests.set(`${run.id}/${one.call?.step}`, one.call?.approval?.digest ?? "");
    }
    return { approvals };
  }

  async decide(run: Run, args: ControlArgs): Promise<unknown> {
    const { step = 0, decision = "", payload, reason, id } = args;
    const digest = args.digest ?? this.#digests.get(`${run.id}/${step}`) ?? "";
    const expires = args.expires && new Date(Date.now() + args.expires * 1000);
    const word = StepDecision[decision as keyof typeof StepDecision];
    const options = { payload, reason, id, ...(expires ? { expires } : {}) };
    return canon(await run.decideStep(step, digest, word, options));
  }
}

export async function steer(run: Run, { text = "", when, id }: ControlArgs): Promise<unknown> {
  const word = when === undefined ? undefined : SteerWhen[when as keyof typeof SteerWhen];
  return canon(await run.steer(text, { when: word, id }));
}

export async function stopRun(run: Run, { note, id }: ControlArgs): Promise<unknown> {
  return canon(await run.stop(note, { id }));
}

export async function raiseBudget(run: Run, args: ControlArgs): Promise<unknown> {
  const { reason = "", max_tokens: maxTokens, max_cost_micro_usd: maxCostMicroUsd, id } = args;
  return canon(await run.raiseBudget(reason, { maxCostMicroUsd, maxTokens }, { id }));
}
