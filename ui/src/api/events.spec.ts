import { expect, test } from "vitest";
import { EventParser } from "./events";

test("events come whole, however they were cut", () => {
  const stream =
    'id: a\ndata: {"n":1}\n\nid: b\nevent: heartbeat\r\ndata: {}\r\n\r\n: comment\ndata: one\ndata: two\n\nevent: end\ndata: {}\n\n';
  const want = [
    { name: "message", data: '{"n":1}', id: "a" },
    { name: "heartbeat", data: "{}", id: "b" },
    { name: "message", data: "one\ntwo", id: "" },
    { name: "end", data: "{}", id: "" },
  ];
  for (let size = 1; size <= stream.length; size++) {
    const parser = new EventParser();
    const got = [];
    for (let at = 0; at < stream.length; at += size) {
      got.push(...parser.push(stream.slice(at, at + size)));
    }
    expect(got, `pieces of ${size}`).toEqual(want);
  }
});

test("what was cut off is no event", () => {
  expect(new EventParser().push('data: {"half":')).toEqual([]);
});
