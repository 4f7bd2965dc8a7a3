/** Signals that stop a worker. On Windows, Node emits SIGINT for Ctrl+C and SIGBREAK for Ctrl+Break. */

import { expect, test } from "vitest";
import { useSidecar } from "./fixture.js";

const shared = useSidecar();

test.each(["SIGTERM", "SIGINT", "SIGBREAK"] as const)(
  "%s lets the turn finish and ends the worker",
  async (signal) => {
    const before = process.listenerCount(signal);
    const worker = shared.client.worker({ packs: ["self-correcting"] });
    const visits: number[] = [];
    worker.prompt("worker", async (turn) => {
      process.emit(signal, signal);
      await turn.output("a piece");
      visits.push(turn.visit);
      return { event: "Success" };
    });
    const run = await shared.client.start("self-correcting");
    await worker.run();
    expect(visits).toEqual([1]);
    expect((await run.info()).state).toBe("complete");
    expect(process.listenerCount(signal)).toBe(before);
    await run.cancel("the next test has a run of its own");
  },
);
