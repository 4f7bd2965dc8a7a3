/**
 * A program can have this package twice, as ES module and as CommonJS: what one copy throws and
 * marks is as good for the other. Real Node loads the package as it is built.
 */

import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { isBranded } from "./brand.js";
import { stepsPack, useSidecar } from "./fixture.js";
import { JsonText, json, PawlError } from "./index.js";

const execute = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));
const program = join(root, "testdata", "copies.mjs");
const killed = join(root, "testdata", "copies_killed.mjs");
const shared = useSidecar({ packs: [], allowTools: ["boom"] });
let built: string;
const index = (form: string) => join(built, form, "index.js");

beforeAll(async () => {
  built = mkdtempSync(join(root, ".copies-"));
  await execute(process.execPath, ["scripts/build.mjs", basename(built)], { cwd: root });
  const tools = { boom: { attempts: 3, on_unknown: "escalate" } };
  const pack = stepsPack("copies", { retry: { max_attempts: 2 }, tools });
  await shared.client.registerPack(pack, { filename: "copies.json" });
  return () => rmSync(built, { recursive: true, force: true });
});

const DONE = { known: true, status: "COMPLETED", ended: "completed", sum: "a text" };
const OVER = { calls: 0, status: "FAILED", sum: null };
const REPORTED = {
  plain: { ...DONE, calls: 3, reason: "NO_ANSWER" },
  final: { ...DONE, calls: 1, reason: "NO_SUCH_ORDER" },
  unknown: { ...OVER, calls: 1, status: "ESCALATED", ended: "tool_error:boom" },
  paused: { ...DONE, calls: 3, reason: "LATER" },
  again: { ...OVER, turns: 2, status: "ESCALATED", ended: "turn_failed" },
  over: { ...OVER, turns: 1, ended: "turn_failed" },
  reject: { ...OVER, turns: 1, ended: "rejected" },
};

describe.each([
  ["esm", "cjs"],
  ["cjs", "esm"],
  ["esm", "esm"],
])("a program with %s", (mine, theirs) => {
  test(`what its tools and handlers throw with ${theirs} is understood`, async () => {
    const args = [program, shared.sidecar.address, index(mine), index(theirs)];
    const { stdout } = await execute(process.execPath, args, { cwd: root });
    const [driven, worked] = stdout.trim().split("\n");
    expect(JSON.parse(driven ?? "")).toEqual(REPORTED);
    expect(JSON.parse(worked ?? "")).toEqual(REPORTED);
  });

  // The restarted sidecar gets the error of the tool, which says that the charge may have happened.
  test.each(["driven", "worked"])(
    `its sidecar killed under a tool with ${theirs}, %s`,
    async (transport) => {
      const ledger = join(built, `ledger-${mine}-${theirs}-${transport}`);
      const args = [killed, shared.sidecar.address, index(mine), index(theirs), transport, ledger];
      const child = spawn(process.execPath, args, {
        cwd: root,
        stdio: ["pipe", "pipe", "inherit"],
      });
      const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
      const line = async () => (await lines.next()).value;
      try {
        expect(await line()).toBe("charged");
        await shared.sidecar.kill();
        child.stdin.write("go on\n");
        expect(await line()).toBe("thrown");
        await shared.sidecar.start();
        expect(await line()).toBe("ESCALATED tool_error:boom");
        expect(readFileSync(ledger, "utf8")).toBe("1\n");
      } finally {
        child.kill("SIGKILL");
      }
    },
  );
});

test("a value is known by its mark, and a class of a user's own by its identity", () => {
  class Own extends PawlError {}
  const error = new PawlError("request", "x");
  expect(error instanceof PawlError).toBe(true);
  expect(error instanceof Own).toBe(false);
  expect(new Own("request", "x") instanceof Own).toBe(true);
  expect(PawlError.is(new Own("request", "x"))).toBe(true);
  expect(json(1) instanceof JsonText).toBe(true);
  expect(isBranded(new Error("x"), "PawlError")).toBe(false);
  expect(new Error("x") instanceof PawlError).toBe(false);
  const trap = new Proxy({}, { get: () => { throw new Error("a trap"); } }); // biome-ignore format: one line
  expect(trap instanceof PawlError).toBe(false);
});

/** Classes of the language or the platform. A process has only one copy of them. */
const FOREIGN = ["Error", "TypeError", "RangeError", "Uint8Array", "Headers", "URL"];

describe("the sources", () => {
  const sources = join(root, "src");
  const files = readdirSync(sources).filter((name) =>
    /^(?!.*\.spec\.ts$|fixture).*\.ts$/.test(name),
  );
  const code = (name: string) =>
    readFileSync(join(sources, name), "utf8").replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");

  test("compare with no class of their own by its identity", () => {
    const compared = files.flatMap((name) => {
      const found = [...code(name).matchAll(/\binstanceof\s+([\w.]+)/g)];
      return found.map(([, type]) => type ?? "").filter((type) => !FOREIGN.includes(type));
    });
    expect(compared).toEqual([]);
  });

  test("mark each class that is exported for users", () => {
    const entries = ["index.ts", "browser.ts", "testing.ts", "models.ts"];
    const exported = entries.map((name) => code(name)).join("\n");
    const unmarked = files.flatMap((name) => {
      const classes = [...code(name).matchAll(/^export (?:abstract )?class (\w+)/gm)];
      const own = entries.includes(name);
      const named = classes
        .map(([, type]) => type ?? "")
        .filter(
          (type) =>
            own ||
            new RegExp(`export[^;]*\\b${type}\\b[^;]*from "./${name.replace(".ts", ".js")}"`).test(
              exported,
            ),
        );
      return named.filter((type) => !new RegExp(`brand\\(${type}, "\\w+"\\)`).test(code(name)));
    });
    expect(unmarked).toEqual([]);
  });
});
