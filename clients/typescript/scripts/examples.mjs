// Compiles the examples of doc comments and of README.md against dist/, so that they stay
// true. In a doc comment an example is what is indented by four spaces more.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const out = join(root, ".examples");

// What an example may use without saying so; one with imports of its own says all.
const prelude = `
import { spawn } from "node:child_process";
import { anthropic } from "@ai-sdk/anthropic";
import { openai } from "@ai-sdk/openai";
import { z } from "zod";
import * as pawl from "pawl-client";
import { agentPack, bounds, currentCall } from "pawl-client/ai-sdk";
import * as pack from "pawl-client/pack";
import { blobRef, failStep, failTurn, json, JsonText, PawlClient, PawlError, RecordKind, Run, sidecarPath, textOf, Turn, Worker } from "pawl-client";
import { modelHandler } from "pawl-client/models";
import { script, Sidecar } from "pawl-client/testing";
declare const client: PawlClient;
declare const run: Run;
declare const turn: Turn;
declare const worker: Worker;
declare const record: pawl.Record;
declare const bytes: Uint8Array;
declare const shown: number;
declare const text: string;
declare function review(text: string): Promise<{ ok: boolean }>;
`;

function ofComments(source) {
  const examples = [];
  for (const [comment] of source.matchAll(/\/\*\*[\s\S]*?\*\//g)) {
    const lines = comment.split("\n").map((line) => /^ *\*(?: {5}(.*)| *)$/.exec(line));
    let example = [];
    for (const line of [...lines, null]) {
      if (line?.[1] !== undefined || (line && example.length > 0)) {
        example.push(line[1] ?? "");
      } else if (example.length > 0) {
        examples.push(example.join("\n"));
        example = [];
      }
    }
  }
  return examples;
}

function ofMarkdown(text) {
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code]) => code);
}

function moduleOf(example) {
  if (/^import /m.test(example)) {
    return `${example}\nexport {};\n`;
  }
  return `${prelude}\nexport async function example() {\n${example}\n}\n`;
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out);
const names = readdirSync(join(root, "src")).filter((name) => /^\w+\.ts$/.test(name));
const found = [
  ...names.map((name) => [name, ofComments(readFileSync(join(root, "src", name), "utf8"))]),
  ["README.md", ofMarkdown(readFileSync(join(root, "README.md"), "utf8"))],
];
let count = 0;
for (const [name, examples] of found) {
  for (const [index, example] of examples.entries()) {
    const file = `${name.replace(/\.\w+$/, "")}_${index + 1}.ts`;
    writeFileSync(join(out, file), moduleOf(example));
    count += 1;
  }
}
const settings = { extends: "../tsconfig.json", include: ["*.ts"], compilerOptions: {} };
Object.assign(settings.compilerOptions, {
  rootDir: ".",
  noEmit: true,
  noUnusedLocals: false,
  noUnusedParameters: false,
  declaration: false,
});
writeFileSync(join(out, "tsconfig.json"), JSON.stringify(settings));
const tsc = join(root, "node_modules", ".bin", "tsc");
const done = spawnSync(tsc, ["--project", out], { cwd: root, stdio: "inherit" });
if (done.status !== 0 || count === 0) {
  console.error(`examples: ${count} found; they are in ${out}`);
  process.exit(1);
}
console.log(`ok\t${count} examples compile`);
