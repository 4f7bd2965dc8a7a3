import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { parseAst } from "vite";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..");

/** Lines of a function from its first to its last, markup included. */
const MOST_LINES = 60;

interface Node {
  type: string;
  start: number;
  end: number;
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value;

function* nodes(value: unknown): Generator<Node> {
  if (Array.isArray(value)) {
    for (const item of value) {
      yield* nodes(item);
    }
  } else if (isNode(value)) {
    yield value;
    for (const child of Object.values(value)) {
      yield* nodes(child);
    }
  }
}

/** The functions of a source that are too long, as "name:line: lines". */
function long(name: string, source: string): string[] {
  const line = (offset: number) => source.slice(0, offset).split("\n").length;
  const program = parseAst(source, { lang: name.endsWith("x") ? "tsx" : "ts" });
  return [...nodes(program)]
    .filter(({ type }) => /Function(Declaration|Expression)$/.test(type))
    .map(({ start, end }) => ({ at: line(start), lines: line(end) - line(start) + 1 }))
    .filter(({ lines }) => lines > MOST_LINES)
    .map(({ at, lines }) => `${name}:${at}: ${lines}`);
}

const sources = ["src", "browser"].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /(?<!\.spec)\.tsx?$/.test(entry.name))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name))),
);

test("no function has more than 60 lines", () => {
  expect(sources.length).toBeGreaterThan(80);
  expect(sources.flatMap((name) => long(name, readFileSync(join(ROOT, name), "utf8")))).toEqual([]);
});

test("a function with 61 lines is too long, one with 60 is not", () => {
  const body = (lines: number) => `const f = () => {\n${"1;\n".repeat(lines - 2)}};`;
  expect(long("a.ts", body(60))).toEqual([]);
  expect(long("a.tsx", `const g = 1;\n${body(61)}`)).toEqual(["a.tsx:2: 61"]);
});
