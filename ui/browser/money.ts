/** Runs that spend, accounts in which they are counted, and limits that keep them waiting. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sidecar } from "./sidecar";
import { Driver } from "./world";

const prompt = (id: string, tools: string[] = []) => ({
  id,
  name: id,
  version: "1.0.0",
  system_template: "You help.",
  tools,
});

const described = (name: string, what: string) => ({
  name,
  description: what,
  parameters: { type: "object", properties: { query: { type: "string" } } },
});

/** $0.10 at most, $0.02 for a search, $0.03 as the lease of the researcher. */
export const PURSE = JSON.stringify({
  id: "purse",
  name: "Purse",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: {
    lead: prompt("lead", ["search", "researcher"]),
    researcher: prompt("researcher"),
  },
  tools: { search: described("search", "Looks it up.") },
  workflow: {
    version: 2,
    entry: "lead",
    states: { lead: { prompt_task: "lead", terminal: true } },
    engine: {
      x_pawl: {
        max_cost_usd: 0.1,
        tools: { search: { cost: 0.02 }, researcher: { cost: 0.03 } },
      },
    },
  },
  agents: { entry: "lead", members: { lead: { state: "lead" }, researcher: {} } },
});

/** A file of the operator's as a flag of `pawl serve`. */
export function operatorFile(flag: string, content: object): string[] {
  const path = join(mkdtempSync(join(tmpdir(), "pawl-ui-")), `${flag}.json`);
  writeFileSync(path, JSON.stringify(content));
  return [`--${flag}`, path];
}

export const BUDGETS = {
  accounts: [
    { label: "tenant", window: "day", max_cost_usd: 0.15 },
    { label: "tenant", value: "acme", window: "month", max_cost_usd: 4, max_tokens: 2_000_000 },
    { window: "ever", max_tokens: 50_000_000 },
  ],
};

/** What a call of the search really costs, in millionths of a US dollar. */
const PRICE = 18_000;

/** Searched three times, asks an agent, and searches again: more than 80 % is not left. */
export async function spending(sidecar: Sidecar, labels: Record<string, string>): Promise<Driver> {
  await sidecar.register(PURSE);
  const run = await Driver.start(sidecar, { pack: "purse", labels });
  for (const query of ["refunds", "returns"]) {
    await run.tool("search", { query }, { found: 3 }, { costMicroUsd: PRICE });
  }
  await run.ask("researcher", { message: "Which of them are of this year?" });
  await run.ask("search", { query: "this year" });
  return run;
}
