/** A handler reads the artifacts of its run. */

import { expect, test } from "vitest";
import { serving, useSidecar } from "./fixture.js";
import { type Handler, RunStatus } from "./index.js";

const shared = useSidecar();
const variables = { n: 1 };
const SEEN = [{}, { sum: 1 }, { sum: 1, log: "a" }];

/** Notes the artifacts of each turn, before and after it writes one. */
const handler = (seen: object[]): Handler => {
  return async (turn) => {
    seen.push(await turn.artifacts());
    if (turn.terminal) {
      return {};
    }
    await turn.setArtifacts({ sum: 1 });
    seen.push(await turn.artifacts());
    return { event: "Done", artifacts: { log: "a" } };
  };
};

test("in a driven run", async () => {
  const seen: object[] = [];
  await shared.client.run("steps", handler(seen), { variables });
  expect(seen).toEqual(SEEN);
});

test("in a worker", async () => {
  const seen: object[] = [];
  await using _ = serving(shared.client.worker().prompt("calc", handler(seen)));
  const run = await shared.client.start("steps", { variables });
  expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
  expect(seen).toEqual(SEEN);
});
