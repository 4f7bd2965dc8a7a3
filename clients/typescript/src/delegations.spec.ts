/** Agents that one answer of a model asks for are asked together. */

import { expect, test } from "vitest";
import { Gate, serving, useSidecar } from "./fixture.js";
import { chat } from "./fixture_models.js";
import { chatEvents, Provider } from "./fixture_provider.js";
import { RunStatus, textOf } from "./index.js";

const AGENTS = ["one", "two", "three"];

const named = (id: string) => ({ id, name: id, version: "1.0.0", system_template: "You help." });
const TEAM = JSON.stringify({
  id: "team",
  name: "Team",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: {
    lead: { ...named("lead"), tools: AGENTS },
    ...Object.fromEntries(AGENTS.map((agent) => [agent, named(agent)])),
  },
  workflow: {
    version: 2,
    entry: "lead",
    states: { lead: { prompt_task: "lead", terminal: true } },
  },
  agents: {
    entry: "lead",
    members: { lead: { state: "lead" }, ...Object.fromEntries(AGENTS.map((one) => [one, {}])) },
  },
});

const shared = useSidecar({ allowTools: AGENTS });

test("three agents of one answer are under way at the same time", async () => {
  await shared.client.registerPack(TEAM, { filename: "team.json" });
  const calls = AGENTS.map((name) => ({
    id: `c-${name}`,
    name,
    given: { message: `Go, ${name}` },
  }));
  await using provider = await Provider.start(chatEvents("", ...calls), chatEvents("All three."));
  const started: string[] = [];
  const together = new Gate();
  const worker = shared.client.worker({ packs: ["team"], turns: 5 });
  worker.prompt("lead", chat(provider.url));
  for (const agent of AGENTS) {
    worker.prompt(agent, async () => {
      started.push(agent);
      if (started.length === AGENTS.length) {
        together.open();
      }
      // No agent answers before all of them were asked.
      await together.opened;
      return { output: `${agent} is done` };
    });
  }
  await using _ = serving(worker);
  const run = await shared.client.start("team", { input: "Go." });
  const { run: info } = await run.wait({ waitMs: 60_000 });
  expect(info?.status).toBe(RunStatus.COMPLETED);
  expect(textOf((await run.result()).output)).toBe("All three.");
  expect([...started].sort()).toEqual([...AGENTS].sort());
  type Messages = readonly { readonly role: string; readonly content: string }[];
  const messages = (provider.got[1]?.body.messages ?? []) as Messages;
  const report = messages.filter(({ role }) => role === "tool").map(({ content }) => content);
  expect(report.map((text) => JSON.parse(text).output)).toEqual(
    AGENTS.map((agent) => `${agent} is done`),
  );
}, 90_000);
