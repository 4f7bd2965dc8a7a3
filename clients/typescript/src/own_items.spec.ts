/** What a provider wants to have back, in its place. */

import { expect, test } from "vitest";
import type { Said } from "./dialect.js";
import { type Place, placed, placesOf } from "./own_items.js";
import type { Json } from "./plain.js";

const a: Place = { own: { id: "a" } };
const b: Place = { own: { id: "b" } };
const said = (provider: Json | undefined) => ({ provider }) as Said;

test.each<[string, Place[], Json | undefined]>([
  ["nothing of its own", ["text", 0], undefined],
  ["all of it first", [a, b, "text", 0, 1], { p: [{ id: "a" }, { id: "b" }] }],
  ["in between", [a, 0, b, 1], { p: [{ id: "a" }, { id: "b" }], places: ["own", 0, "own", 1] }],
])("%s", (_, places, recorded) => {
  expect(placed("p", places)).toEqual(recorded);
  const back = placesOf("p", said(recorded), 2);
  expect(back).toEqual(recorded === undefined ? ["text", 0, 1] : places);
});

test("what is another provider's is left out", () => {
  expect(placesOf("q", said(placed("p", [a, 0, b, 1])), 2)).toEqual(["text", 0, 1]);
});
