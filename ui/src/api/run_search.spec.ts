import { expect, test } from "vitest";
import { questions, shortened } from "./run_search";

test("a text becomes the questions that the sidecar can answer", () => {
  expect(questions("01kab")).toContainEqual({ "filter.runIdPrefix": "01KAB" });
  expect(questions("01KABCDEFG…XYZ123")).toEqual([{ "filter.runIdPrefix": "01KABCDEFG" }]);
  expect(questions("team=a=b")).toEqual([{ "filter.labels[team]": "a=b" }]);
  expect(questions("review")).toEqual([
    { "filter.state": "review" },
    { "filter.reason": "review" },
    { "filter.pack": "review" },
  ]);
  expect(questions("two words")).toEqual([]);
  expect([shortened("01K…9"), shortened("01K...9"), shortened("a…b"), shortened("01K")]).toEqual([
    ["01K", "9"],
    ["01K", "9"],
    undefined,
    undefined,
  ]);
});
