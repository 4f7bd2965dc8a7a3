/**
 * The TypeScript programs of docs/guides, as they stand there. A block whose first line is
 * `// file: NAME.ts` is a program, which has to compile. A `text` block that follows is its output
 * against a sidecar. Without one, the program prints the same as the page's Python program of that
 * name. The packs of its page are registered.
 */

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, expect, test, vi } from "vitest";
import { useSidecar } from "./fixture.js";
import { Sidecar } from "./testing.js";

const client = fileURLToPath(new URL("..", import.meta.url));
const guides = join(client, "../../docs/guides");
const directory = mkdtempSync(join(client, ".examples-guides-"));
const shared = useSidecar({ packs: [], allowTools: ["*"] });

afterAll(() => rmSync(directory, { recursive: true, force: true }));

const PROGRAM = /^```ts\n\/\/ file: (\w+\.ts)\n([\s\S]*?)^```$(?:\n\n^```text\n([\s\S]*?)^```$)?/gm;

const PACK = /^```yaml\n# file: \S+\.pack\.yaml\n([\s\S]*?)^```$/gm;

/** The MCP server of a page, and the settings that start it. */
const SERVER = /^```py\n# file: bank\.py\n([\s\S]*?)^```$/m;
const SETTINGS = /^```yaml\n# file: pawl\.yaml\n([\s\S]*?)^```$/m;

/** The output of the Python program with this name. */
function outputOfPython(text: string, name: string): string | undefined {
  const [, output] = text.split(`\`python ${name}\` prints:\n\n\`\`\`text\n`);
  return output?.split("```")[0];
}

const programs = readdirSync(guides).flatMap((page) => {
  const text = readFileSync(join(guides, page), "utf8");
  const packs = [...text.matchAll(PACK)].map(([, pack = ""]) => pack);
  return [...text.matchAll(PROGRAM)].map(([, name = "", code = "", output]) => {
    const same = outputOfPython(text, name.replace(/ts$/, "py"));
    const server = SERVER.exec(text)?.[1];
    const settings = SETTINGS.exec(text)?.[1];
    return { page, packs, name, code, server, settings, output: output ?? same };
  });
});

test("the guides have programs", () => {
  const names = programs.map(({ name }) => name).join(" ");
  expect(names).toBe(
    "forecast.ts refunds.ts search.ts loop.ts support.ts till.ts help.ts pay.ts orders.ts hello.ts " +
      "stream.ts turn.ts essay.ts desk.ts greet.ts",
  );
});

test("they compile", () => {
  const settings = {
    extends: "../tsconfig.json",
    compilerOptions: {
      rootDir: "..",
      noEmit: true,
      declaration: false,
      paths: {
        "pawl-client": ["../src/index.ts"],
        "pawl-client/ai-sdk": ["../src/ai_sdk.ts"],
        "pawl-client/*": ["../src/*.ts"],
      },
    },
    include: ["*.ts"],
  };
  writeFileSync(join(directory, "tsconfig.json"), JSON.stringify(settings));
  for (const { name, code } of programs) {
    writeFileSync(join(directory, name), code);
  }
  const tsc = join(client, "node_modules/.bin/tsc");
  const done = spawnSync(tsc, ["--project", directory], { encoding: "utf8" });
  expect(done.stdout + done.stderr).toBe("");
});

const running = programs.filter(({ output }) => output !== undefined);

test.each(running)("$page: $name prints what the page shows", async (program) => {
  const { packs, name, code, output } = program;
  await using own = await ownSidecar(program);
  using admin = (own ?? shared.sidecar).client();
  for (const pack of packs) {
    await admin.registerPack(pack);
  }
  const text = code
    .replace('from "pawl-client"', 'from "../src/index.ts"')
    .replace(/from "pawl-client\/([\w-]+)"/g, (_, entry: string) => {
      return `from "../src/${entry.replace("-", "_")}.ts"`;
    })
    // The compiler of the specs leaves `using` to Node, which knows it from version 24 on.
    .replace("using client", "const client");
  const file = join(directory, `run_${name}`);
  writeFileSync(file, `${text}client.close();\n`);
  const lines: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((...words: unknown[]) => {
    lines.push(`${words.join(" ")}\n`);
  });
  vi.stubEnv("PAWL_ADDR", (own ?? shared.sidecar).address);
  try {
    await import(pathToFileURL(file).href);
  } finally {
    log.mockRestore();
    vi.unstubAllEnvs();
  }
  expect(lines.join("")).toBe(output);
});

/** A sidecar with the settings of the page. Undefined means that the page has none. */
async function ownSidecar({ settings, server }: (typeof programs)[number]) {
  if (settings === undefined || server === undefined) {
    return undefined;
  }
  writeFileSync(join(directory, "bank.py"), server);
  // The server has to run in the directory of its files; on the page the sidecar runs there too.
  const there = `{command: sh, args: [-c, "cd '${directory}' && exec python3 bank.py"]}`;
  const file = join(directory, "pawl.yaml");
  writeFileSync(file, settings.replace(/bank:[\s\S]*/, `bank: ${there}\n`));
  return Sidecar.start({ allowTools: ["*"], flags: [`--config=${file}`] });
}
