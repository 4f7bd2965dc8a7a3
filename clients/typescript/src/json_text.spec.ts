/** What a program gives becomes JSON as it is, or is refused with its place. */

import { readdirSync, readFileSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import { stepsPack, useSidecar, useWorkers } from "./fixture.js";
import { type PawlClient, PawlError, RunStatus, type Turn } from "./index.js";
import { toJsonText } from "./json_text.js";
import { parseJson } from "./plain_message.js";
import { replaceLoneSurrogatesIn } from "./unicode.js";
import { json, partsOf, writesOf } from "./values.js";

class Money {
  readonly #cents: number;
  constructor(cents: number) {
    this.#cents = cents;
  }
  get euros(): number {
    return this.#cents / 100;
  }
}

const loop: { again?: unknown } = {};
loop.again = loop;
const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);

/** Values that are refused in `{ at: [0, value] }`, with the name that the error gives them. */
const REFUSED: [string, unknown, string][] = [
  ["not a number", Number.NaN, "NaN"],
  ["an infinity", Number.POSITIVE_INFINITY, "Infinity"],
  ["nothing in an array", undefined, "undefined"],
  ["a function", () => 1, "a function"],
  ["a symbol", Symbol("s"), "a symbol"],
  ["a Map", new Map([["a", 1]]), "an instance of Map"],
  ["a Set", new Set([1]), "an instance of Set"],
  ["an Error", new RangeError("no"), "an instance of RangeError"],
  ["an instance of a class", new Money(5), "an instance of Money"],
  ["a promise", Promise.resolve(1), "an instance of Promise"],
  ["a regular expression", /a/, "an instance of RegExp"],
  ["a number in a box", new Number(1), "an instance of Number"],
  ["a time that is none", new Date(Number.NaN), "an invalid Date"],
  ["bytes", Uint8Array.of(1), "an instance of Uint8Array"],
  ["a Buffer", Buffer.from("a"), "an instance of Buffer"],
  ["half a character", "a\ud800", "half a character"],
  ["its other half", "\udc00a", "half a character"],
];

describe("a value is refused with its place:", () => {
  test.each(REFUSED)("%s", (_, value, word) => {
    const field = "result.at[1]";
    const refused = expect.objectContaining({ kind: "request", reason: "INVALID_JSON", field });
    const thrown = errorOf(() => toJsonText({ at: [0, value] }, "result"));
    expect(thrown).toEqual(refused);
    expect(thrown.message).toContain(`${field}: `);
    expect(thrown.message).toContain(word);
    expect(Buffer.from(thrown.message).toString()).toBe(thrown.message);
  });

  test.each([
    ["a name with half a character", { "\udc00": 1 }, "result", "half a character"],
    ["a hole in an array", new Array(1), "result[0]", "undefined"],
    ["what throws", { a: { toJSON: () => JSON.parse("{") } }, "result.a", "it throws"],
    ["a getter that throws", { a: getter() }, "result.a", "it throws"],
    ["what toJSON says", { a: { toJSON: () => [Number.NaN] } }, "result.a[0]", "NaN"],
    ["what JSON knows nothing of", undefined, "result", "undefined"],
    ["what is marked", json({ a: Number.NaN }), "result.a", "NaN"],
  ])("%s", (_, value, field, word) => {
    const thrown = errorOf(() => toJsonText(value, "result"));
    expect(thrown).toMatchObject({ reason: "INVALID_JSON", field });
    expect(thrown.message).toContain(word);
  });

  test.each([
    ["itself", loop],
    ["more than it may", deep(129)],
    ["very much more", deep(9000)],
  ])("one that holds %s", (_, value) => {
    const thrown = errorOf(() => toJsonText(value, "result"));
    expect(thrown).toMatchObject({ reason: "INVALID_JSON" });
    expect(thrown.message).toMatch(/nests more than 128 deep/);
    expect(thrown.message.length).toBeLessThan(1000);
  });
});

function getter() {
  return Object.defineProperty({}, "b", {
    enumerable: true,
    get: () => {
      throw new Error("no");
    },
  });
}

function errorOf(work: () => unknown): PawlError {
  try {
    work();
  } catch (error) {
    if (PawlError.is(error)) {
      return error;
    }
    throw error;
  }
  throw new Error("it was taken");
}

test("a value is taken as JSON.stringify writes it", () => {
  const values = [
    { a: [1, -0, 1e21, 1e-7, "x\u2028\u0000\u{1f600}", true, null, {}], b: undefined, c: [] },
    new Date(0),
    { at: new Date(5), url: new URL("file:///a") },
    Object.assign(Object.create(null), { "": 1, __proto: 2 }),
    { toJSON: (key: string) => `as ${key}` },
    [{ toJSON: (key: string) => `as ${key}` }],
    deep(127),
    "text",
    null,
  ];
  for (const value of values) {
    expect(toJsonText(value, "v")).toBe(JSON.stringify(value));
  }
  expect(toJsonText({ a: [2n ** 64n, -1n] }, "v")).toBe('{"a":[18446744073709551616,-1]}');
});

test("a text of a part and of an artifact is whole as well", () => {
  const refused = (field: string) => expect.objectContaining({ reason: "INVALID_TEXT", field });
  expect(errorOf(() => partsOf(["a", "\ud800"]))).toEqual(refused("parts[1]"));
  expect(errorOf(() => writesOf({ log: "\ud800" }))).toEqual(refused("artifacts.log"));
  expect(partsOf("\u{1f600}")[0]?.content.value).toBe("\u{1f600}");
});

test("halves that were recorded by earlier programs, or said by a model, are replaced", () => {
  expect(parseJson('{"a\\udc00":["\\uD800","\\ud83d\\ude00",1]}')).toEqual({
    "a\ufffd": ["\ufffd", "\u{1f600}", 1],
  });
  const data = Uint8Array.of(1);
  expect(
    replaceLoneSurrogatesIn({ content: ["\ud800", data], provider: { "\ud800": 1n } }),
  ).toEqual({
    content: ["\ufffd", data],
    provider: { "\ufffd": 1n },
  });
});

/** Files that may call JSON.stringify: their values do not come from a program, for this reason. */
const STRINGIFY: { [file: string]: string } = {
  "json_text.ts": "the one function",
  "ai_record.ts": "what recordable has made JSON",
  "call_key.ts": "examples",
  "endpoint_fetch.ts": "what an endpoint said, mended",
  "event_source.ts": "a cursor in a sentence",
  "gateway_transport.ts": "messages of protobuf",
  "exit_tools.ts": "a name in a sentence",
  "node_transport.ts": "an address in a sentence",
  "model_loop.ts": "a name in a sentence",
  "turn.ts": "a key in a sentence",
  "raw_json.ts": "a text in a text",
  "pack.ts": "a document that toJsonText has written",
  "printable.ts": "a comment",
  "run_events.ts": "a comment",
};

test("nothing else makes JSON of a program's values", () => {
  const sources = readdirSync(import.meta.dirname).filter((name) => {
    return name.endsWith(".ts") && !/\.spec\.ts$|^fixture/.test(name);
  });
  const found = sources.filter((name) => {
    return readFileSync(`${import.meta.dirname}/${name}`, "utf8").includes("JSON.stringify");
  });
  expect(found.sort()).toEqual(Object.keys(STRINGIFY).sort());
});

describe("a result of a tool", () => {
  const shared = useSidecar({ allowTools: ["*"] });
  const serve = useWorkers();
  let client: PawlClient;
  const results = REFUSED.filter(
    ([name]) => name !== "nothing in an array" && name !== "a promise",
  );

  beforeAll(async () => {
    client = shared.client;
    await client.registerPack(stepsPack("no-json", { tools: { add: { on_unknown: "return" } } }), {
      filename: "x.json",
    });
  });

  test.each(["driven", "worked"])(
    "is refused with its place where it is made: %s",
    async (mode) => {
      const report: string[] = [];
      const left = results.map(([, value]) => value);
      const add = () => ({ at: [0, left.shift()] }) as unknown as number;
      const handler = async (turn: Turn) => {
        if (turn.terminal) {
          return {};
        }
        for (const index of results.keys()) {
          const request = turn.step("add", { a: 1, b: 2 }, { key: `${index}` });
          await request.catch((error: PawlError) =>
            report.push(`${error.reason}: ${error.message}`),
          );
        }
        return { event: "Done" };
      };
      if (mode === "driven") {
        const options = { variables: { n: 1 }, tools: { add } };
        expect((await client.run("no-json", handler, options)).status).toBe(RunStatus.COMPLETED);
      } else {
        const worker = client.worker({ packs: ["no-json"], onError: () => undefined });
        serve(worker.prompt("calc", handler).tool("add", add));
        const run = await client.start("no-json", { variables: { n: 1 } });
        expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
      }
      const wanted = /^RESULT_INVALID: .*the result was refused: result\.at\[1\]: /;
      expect(report.filter((text) => !wanted.test(text))).toEqual([]);
      expect(report).toHaveLength(results.length);
    },
  );
});
