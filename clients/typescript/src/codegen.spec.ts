/** `pawl codegen`: what it writes compiles, and a misspelt name is an error of tsc. */

import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sidecarPath } from "./index.js";

const client = fileURLToPath(new URL("..", import.meta.url));
const root = join(client, "../..");
const golden = join(root, "internal/codegen/testdata");
const example = join(root, "examples/agentic-loop/agentic_loop.ts");

const RIGHT = `
import { type Handler, PawlClient, type Turn } from "pawl-client";
import { modelHandler } from "pawl-client/models";
import { script } from "pawl-client/testing";
import { agenticLoopPack, type AgenticLoopPack } from "./agentic_loop.js";
import { awkwardPack } from "./awkward.js";
import { evaluatorOptimizerPack, type AcceptsArguments } from "./evaluator_optimizer.js";

declare const client: PawlClient;
declare const chat: ReturnType<typeof modelHandler>;

const worker = client.worker({ packs: [agenticLoopPack] });
worker.prompt("actor", async (turn) => {
  const page = await turn.step<{ page: string }>("fetch", { url: turn.variables.tone.trim() });
  await turn.step("critique", { page: page.page }, { key: "2" });
  await turn.setArtifacts({ memory: "read" });
  if (turn.visit > 1) {
    return { event: "Acted", artifacts: { plan: "b", page: { a: 1 } } };
  }
  return { event: "Acted", output: "x", usage: { inputTokens: 1 } };
});
worker.prompt("reporter", (turn) => ({ output: turn.variables.tone ?? "none" }));
worker.prompt("framer", () => undefined);
worker.prompt("planner", chat);
worker.prompt("*", (turn) => (turn.terminal ? {} : { event: "Done" }));
worker.tool("fetch", async ({ url }, { signal }) => ({ page: url, aborted: signal.aborted }));
worker.tool("*", () => null);

const plan: Handler<AgenticLoopPack["prompts"]["planner"]> = () => ({ event: "Planned" });
worker.prompt("planner", plan);
function helper(turn: Turn<AgenticLoopPack["prompts"]["actor"]>) {
  return turn.step("fetch", { url: "x" });
}

export async function use() {
  const run = await client.start(agenticLoopPack, { variables: { tone: "x" }, labels: { a: "b" } });
  await run.emit("Done", { artifacts: { plan: "x" } });
  await run.setArtifacts({ frame: "x", page: { n: [1] } });
  (await run.artifacts()).plan?.trim();
  (await run.result()).artifacts.plan?.trim();
  (await run.variables()).tone?.trim();
  const result = await client.run(
    evaluatorOptimizerPack,
    {
      judge: async (turn) => {
        const payload: AcceptsArguments = { message: "x" };
        await Promise.all([turn.step("accepts", payload), turn.step("rejects", payload)]);
        return { event: "Retry", artifacts: { verdicts: [1] } };
      },
      generator: (turn) => ({ event: "Drafted", artifacts: { draft: turn.variables.task } }),
      closer: chat,
    },
    { variables: { task: "x" } },
  );
  result.artifacts.draft?.trim();
  await client.run(agenticLoopPack, chat, { tools: { fetch: ({ url }) => url } });
  await client.run(agenticLoopPack, script({ frame: [{ event: "Framed" }] }));
  await client.run<AgenticLoopPack>("agentic-loop", () => ({ event: "Done" }));
  await client.start(evaluatorOptimizerPack, { agent: "accepts", variables: { draft: "x" } });
  await client.start(evaluatorOptimizerPack, { state: "judge", variables: { draft: "x" } });
  await client.attach<AgenticLoopPack>("id").emit("Done");
  const name: string = agenticLoopPack;
  const loose = await client.start(name, { variables: { n: 1 } });
  await loose.emit("Any", { artifacts: (await loose.artifacts()) });
  client.worker().prompt("any", async (turn) => ({ event: String(await turn.step("t", { a: 1 })) }));
}

client.worker({ packs: [awkwardPack] }).prompt("class", async (turn) => {
  await turn.step("choose", { mode: "a", "the-key": null, either: { x: 1 }, both: { a: "" } });
  await turn.step("tree", { root: { name: "a", children: [{ name: "b" }] }, words: [["a"]] });
  await turn.step("shapes", { circle: 1 });
  await turn.step("free");
  await turn.step("free", { any: 1 });
  await turn.step("helper", { message: "x", variables: { plain: "x" } });
  await turn.step("été", { température: 20 });
  await turn.setArtifacts({ class: "x", "the-list": [1], picture: new Uint8Array() });
  return { event: turn.variables.from ? "Go On!" : "import" };
});
export { helper };
`;

/** What is wrong with each line that follows a mark. */
const WRONG = `
import type { PawlClient, Turn } from "pawl-client";
import { agenticLoopPack, type AgenticLoopPack } from "./agentic_loop.js";
import { awkwardPack } from "./awkward.js";
import { evaluatorOptimizerPack } from "./evaluator_optimizer.js";

declare const client: PawlClient;

const worker = client.worker({ packs: [agenticLoopPack] });
// @ts-expect-error the prompt
worker.prompt("actro", () => ({}));
// @ts-expect-error the event
worker.prompt("actor", () => ({ event: "Actde" }));
// @ts-expect-error one of another state
worker.prompt("actor", async () => ({ event: "Done" }));
// @ts-expect-error the artifact
worker.prompt("actor", async () => ({ event: "Acted", artifacts: { plan: "x", memroy: "x" } }));
// @ts-expect-error the artifact alone
worker.prompt("actor", () => ({ event: "Acted", artifacts: { memroy: "x" } }));
// @ts-expect-error the artifact's type
worker.prompt("actor", () => ({ event: "Acted", artifacts: { memory: 1 } }));
// @ts-expect-error one of two answers
worker.prompt("actor", async (turn) => {
  if (turn.visit > 1) {
    return { event: "Acted" };
  }
  return { event: "Acted", artifacts: { memroy: "x" } };
});
// @ts-expect-error a property of the reply
worker.prompt("actor", () => ({ event: "Acted", artifact: {} }));
// @ts-expect-error it has no events
worker.prompt("reporter", () => ({ event: "Done" }));
// @ts-expect-error for any prompt
worker.prompt("*", () => ({ event: "Actde" }));
worker.prompt("actor", async (turn) => {
  // @ts-expect-error the tool
  await turn.step("fecth", { url: "x" });
  // @ts-expect-error its argument
  await turn.step("fetch", { ulr: "x" });
  // @ts-expect-error one too many
  await turn.step("fetch", { url: "x", page: "y" });
  // @ts-expect-error of another type
  await turn.step("fetch", { url: 1 });
  // @ts-expect-error missing
  await turn.step("fetch");
  // @ts-expect-error the artifact
  await turn.setArtifacts({ memroy: "x" });
  // @ts-expect-error the variable
  turn.variables.tnoe;
  return undefined;
});
worker.prompt("framer", async (turn) => {
  // @ts-expect-error not this prompt's
  await turn.step("fetch", { url: "x" });
  return { event: "Framed" };
});
// @ts-expect-error the tool
worker.tool("fecth", () => null);
// @ts-expect-error its argument
worker.tool("fetch", ({ ulr }) => ulr);
// @ts-expect-error its argument, annotated
worker.tool("fetch", ({ ulr }: { ulr: string }) => ulr);

export async function use() {
  // @ts-expect-error the variable
  await client.start(agenticLoopPack, { variables: { tnoe: "x" } });
  // @ts-expect-error one too many
  await client.start(agenticLoopPack, { variables: { tone: "x", tnoe: "x" } });
  // @ts-expect-error it is missing
  await client.start(evaluatorOptimizerPack, { variables: {} });
  // @ts-expect-error by name of the types
  await client.start<AgenticLoopPack>("agentic-loop", { variables: { tnoe: "x" } });
  // @ts-expect-error the agent
  await client.start(evaluatorOptimizerPack, { agent: "acepts" });
  // @ts-expect-error the variable of another entry
  await client.start(evaluatorOptimizerPack, { agent: "accepts", variables: { task: "x" } });
  const run = await client.start(agenticLoopPack);
  // @ts-expect-error the event
  await run.emit("Dnoe");
  // @ts-expect-error the artifact
  await run.emit("Done", { artifacts: { paln: "x" } });
  // @ts-expect-error the artifact
  await run.setArtifacts({ paln: "x" });
  // @ts-expect-error the artifact
  (await run.artifacts()).paln;
  // @ts-expect-error the artifact
  (await run.result()).artifacts.paln;
  // @ts-expect-error the variable
  (await run.variables()).tnoe;
  // @ts-expect-error the event
  await client.run(agenticLoopPack, { actor: () => ({ event: "Actde" }) });
  // @ts-expect-error the prompt
  await client.run(agenticLoopPack, { actro: () => ({}) });
  // @ts-expect-error the artifact
  await client.run(agenticLoopPack, () => ({ event: "Done", artifacts: { plan: "", paln: "" } }));
  await client.run(agenticLoopPack, {
    // @ts-expect-error the artifact
    actor: async () => ({ event: "Acted", artifacts: { plan: "", paln: "" } }),
  });
  // @ts-expect-error the tool
  await client.run(agenticLoopPack, () => ({}), { tools: { fecth: () => null } });
  // @ts-expect-error the variable
  await client.run(agenticLoopPack, () => ({}), { variables: { tnoe: "x" } });
}

export async function choose(turn: Turn<(typeof awkward)["prompts"]["class"]>) {
  // @ts-expect-error none of the values
  await turn.step("choose", { mode: "b", "the-key": null });
  // @ts-expect-error missing
  await turn.step("choose", { mode: "a" });
  // @ts-expect-error deep
  await turn.step("tree", { root: { name: "a", children: [{ name: "b", nmae: "b" }] } });
  // @ts-expect-error in a choice
  await turn.step("shapes", { cirlce: 1 });
  // @ts-expect-error the prompt's blocklist names it
  await turn.step("blocked");
}
declare const awkward: import("./awkward.js").AwkwardPack;
export { awkwardPack };
`;

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "pawl-codegen-"));
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  // The package is what its sources are.
  writeFileSync(
    join(directory, "tsconfig.json"),
    JSON.stringify({
      extends: join(client, "tsconfig.json"),
      compilerOptions: {
        rootDir: "/",
        noEmit: true,
        typeRoots: [join(client, "node_modules/@types")],
        paths: {
          "pawl-client": [join(client, "src/index.ts")],
          "pawl-client/*": [join(client, "src/*.ts")],
        },
      },
      include: ["*.ts"],
    }),
  );
  for (const name of readdirSync(golden).filter((name) => name.endsWith(".ts"))) {
    cpSync(join(golden, name), join(directory, name));
  }
  cpSync(example, join(directory, "agentic_loop.ts"));
});

afterAll(() => rmSync(directory, { recursive: true, force: true }));

function tsc(): string {
  const program = join(client, "node_modules/.bin/tsc");
  const done = spawnSync(program, ["--project", directory], { encoding: "utf8" });
  return done.stdout + done.stderr;
}

test("right use compiles, and each misspelling fails", () => {
  writeFileSync(join(directory, "right.ts"), RIGHT);
  writeFileSync(join(directory, "wrong.ts"), WRONG);
  expect(tsc()).toBe("");
}, 60_000);

test("each pack is written and compiles", () => {
  const packs = join(root, "testdata/packs");
  for (const name of readdirSync(packs)) {
    const out = join(directory, `${name.replace(/\W/g, "_")}.ts`);
    const flags = ["codegen", "--lang=typescript", `--out=${out}`];
    const done = spawnSync(sidecarPath(), [...flags, join(packs, name)], { encoding: "utf8" });
    expect([name, done.status, done.stdout, done.stderr]).toEqual([name, 0, "", ""]);
    expect(readFileSync(out, "utf8")).toMatch(/^\/\/ Generated by/);
  }
  expect(tsc()).toBe("");
}, 60_000);
