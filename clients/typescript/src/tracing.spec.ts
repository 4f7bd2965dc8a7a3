/** The traces of handlers, continued by OpenTelemetry where it is installed. */

import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Context,
  type ContextManager,
  context,
  ROOT_CONTEXT,
  trace,
} from "@opentelemetry/api";
import { afterAll, beforeAll, expect, test } from "vitest";
import { STEPS, useSidecar, useWorkers } from "./fixture.js";
import { RunStatus } from "./index.js";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

const shared = useSidecar({ packs: [STEPS], allowTools: ["add"] });
const serve = useWorkers();

const contexts = new AsyncLocalStorage<Context>();

/** What an application's OpenTelemetry SDK brings along. */
const manager: ContextManager = {
  active: () => contexts.getStore() ?? ROOT_CONTEXT,
  with: (current, work, self, ...args) => contexts.run(current, () => work.apply(self, args)),
  bind: (_, target) => target,
  enable: () => manager,
  disable: () => manager,
};

beforeAll(() => {
  context.setGlobalContextManager(manager);
});
afterAll(() => context.disable());

/** Returns the current span: a new span would become its child. */
const here = () => trace.getSpanContext(context.active());

test("handlers continue the trace of the run", async () => {
  const seen: ReturnType<typeof here>[] = [];
  const worker = shared.client.worker().prompt("calc", async (turn) => {
    seen.push(here());
    if (turn.terminal) {
      return;
    }
    await turn.step<number>("add", { a: 1, b: 2 });
    expect(here()).toEqual(seen[0]);
    return { event: "Done" };
  });
  worker.tool("add", (payload: { a: number; b: number }) => {
    seen.push(here());
    return payload.a + payload.b;
  });
  serve(worker);
  const labels = { traceparent: `00-${TRACE}-${SPAN}-01` };
  const traced = await shared.client.start("steps", { variables: { n: 1 }, labels });
  expect((await traced.wait()).run?.status).toBe(RunStatus.COMPLETED);
  expect(seen).toHaveLength(3);
  expect(seen.map((found) => found?.traceId)).toEqual([TRACE, TRACE, TRACE]);
  expect(new Set([SPAN, ...seen.map((found) => found?.spanId)]).size).toBe(4);
  seen.length = 0;
  const plain = await shared.client.start("steps", { variables: { n: 1 } });
  expect((await plain.wait()).run?.status).toBe(RunStatus.COMPLETED);
  expect(seen).toEqual([undefined, undefined, undefined]);
});
