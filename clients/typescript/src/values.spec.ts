/** Values on their way to the wire and back. */

import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { ArtifactSchema, RecordSchema } from "./gen/pawl/v1/record_pb.js";
import { RunSchema, StepSchema } from "./gen/pawl/v1/run_pb.js";
import { type Json, plain } from "./plain_message.js";
import { checkSchema } from "./schema.js";
import { json, partsOf, textOf, writesOf } from "./values.js";

describe("artifacts", () => {
  test("take the form of their declared type, else that of the value", () => {
    const slots = [
      { name: "j", mediaType: "application/json" },
      { name: "k", mediaType: "application/ld+json" },
      { name: "t", mediaType: "text/plain" },
    ];
    const given = { j: "s", k: [1], t: "s", text: "s", n: 3, b: Uint8Array.of(1), q: json("s") };
    const forms = writesOf(given, slots).map((write) => write.value?.value);
    expect(forms).toEqual([
      { case: "json", value: '"s"' },
      { case: "json", value: "[1]" },
      { case: "text", value: "s" },
      { case: "text", value: "s" },
      { case: "json", value: "3" },
      { case: "data", value: Uint8Array.of(1) },
      { case: "json", value: '"s"' },
    ]);
  });

  test.each([[undefined], [() => 1]])("refuse what is no JSON: %s", (value) => {
    expect(() => writesOf({ a: value as unknown as number })).toThrow(/artifacts.a/);
  });

  test("are read by their form", () => {
    const read = (value: { case: "json" | "text"; value: string }) =>
      plain(ArtifactSchema, create(ArtifactSchema, { value: { value } })).value;
    expect(read({ case: "json", value: '{"a":[1,null]}' })).toEqual({ a: [1, null] });
    expect(read({ case: "text", value: "{}" })).toBe("{}");
  });
});

test("content is text, bytes, JSON or a place", () => {
  const parts = partsOf(["a", Uint8Array.of(1), { x: 1 }, { uri: "file:x" }, json("b")]);
  expect(parts.map((part) => part.content.case)).toEqual(["text", "data", "json", "uri", "json"]);
  expect(textOf(partsOf("only"))).toBe("only");
  expect(partsOf(undefined)).toEqual([]);
});

test("messages are read as plain values", () => {
  const record = create(RecordSchema, {
    seq: 2n,
    at: { seconds: 1n, nanos: 5_000_000 },
    body: { case: "stepRequested", value: { step: 1, payloadJson: '{"a":1}' } },
  });
  const read = plain(RecordSchema, record);
  expect(read.seq).toBe(2);
  expect(read.at).toEqual(new Date(1005));
  expect(read.body.case === "stepRequested" && read.body.value.payload).toEqual({ a: 1 });
  expect(JSON.stringify(read)).not.toContain("$typeName");
  const run = plain(RunSchema, create(RunSchema, { visits: { a: 1 }, tokens: 7n }));
  expect([run.visits, run.tokens, run.deadline]).toEqual([{ a: 1 }, 7, undefined]);
  const step = plain(StepSchema, create(StepSchema, {}));
  expect([step.payload, step.result]).toEqual([undefined, undefined]);
  expect(plain(RecordSchema, create(RecordSchema)).body).toEqual({ case: undefined });
});

test("a schema names the place in the member of a union that is meant", () => {
  const member = (tag: string, name: string): Json => ({
    type: "object",
    properties: { kind: { const: tag }, [name]: { type: "number" } },
    required: ["kind", name],
  });
  const $defs = { circle: member("circle", "r"), square: member("square", "side") };
  const refs = [{ $ref: "#/$defs/circle" }, { $ref: "#/$defs/square" }];
  for (const oneOf of [refs, Object.values($defs)]) {
    const schema = { $defs, type: "object", properties: { shape: { oneOf } } };
    const expected = (shape: Json) => () => checkSchema({ shape }, schema, "payload");
    expect(expected({ kind: "circle", r: "x" })).toThrow("payload: at /shape/r: must be number");
    expect(expected({ kind: "square", side: "x" })).toThrow(
      "payload: at /shape/side: must be number",
    );
    expect(expected({ kind: "square" })).toThrow(/^payload: at \/shape: .*'side'/);
    expect(expected({ kind: "oval" })).toThrow("payload: at /shape: must match exactly one schema");
    expected({ kind: "circle", r: 1 })();
  }
});

test("a schema names the first place that does not fit", () => {
  const schema = { type: "object", properties: { a: { items: { type: "number" } } } };
  checkSchema({ a: [1] }, schema, "payload");
  expect(() => checkSchema({ a: [1, "x"] }, schema, "payload")).toThrow("payload: at /a/1");
  expect(() => checkSchema(1, { type: "nothing" }, "payload")).toThrow(/schema is invalid/);
});
