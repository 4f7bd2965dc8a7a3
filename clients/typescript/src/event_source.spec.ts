/** Events: the table that both clients share. */

import { readFileSync } from "node:fs";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { EventReader } from "./event_reader.js";
import { RunStatus } from "./gen/pawl/v1/record_pb.js";
import { StreamTransitionsResponseSchema } from "./gen/pawl/v1/run_pb.js";

interface Scenario {
  readonly name: string;
  readonly after?: string;
  readonly items: readonly JsonValue[];
  readonly events: readonly object[];
}

const path = new URL("../../../testdata/events/table.json", import.meta.url);
const table = JSON.parse(readFileSync(path, "utf8")) as Scenario[];

/** A value as the table writes it: without what is empty. */
function plain(value: unknown, key = ""): unknown {
  if (value instanceof Date) {
    return value.toISOString().replace(".000Z", "Z");
  }
  if (key === "status") {
    return RunStatus[value as RunStatus];
  }
  if (Array.isArray(value)) {
    return value.map((each) => plain(each));
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const { content } = value as { content?: { case: string; value: unknown } };
  const fields = content
    ? [[content.case, content.value]]
    : Object.entries(value).map(([name, each]) => [name, plain(each, name)]);
  return Object.fromEntries(fields.filter(([, each]) => !empty(each)));
}

function empty(value: unknown): boolean {
  return typeof value === "string"
    ? value === ""
    : value === undefined || ["0", "false", "[]", "{}", "null"].includes(JSON.stringify(value));
}

test.each(table.map((scenario) => [scenario.name, scenario] as const))("%s", (_, scenario) => {
  const { after = "", items, events } = scenario;
  const reader = new EventReader({ namespace: "", runId: "R" }, { after });
  const read = items.flatMap((item) => {
    return reader.read(fromJson(StreamTransitionsResponseSchema, item)) ?? [];
  });
  expect(read.map((event) => plain(event))).toEqual(events);
});

test.each([["1"], ["x.0.0.0.0.0.0.0"], ["1.2.3.4.5.6.7.8.9"]])("%s is no cursor", (after) => {
  expect(() => new EventReader({ namespace: "", runId: "R" }, { after })).toThrow(
    expect.objectContaining({ reason: "BAD_CURSOR" }),
  );
});
