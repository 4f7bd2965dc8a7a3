/** What a tool did is told again while the sidecar asks to come back. */

import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { PawlError } from "./errors.js";
import { Executor, type ExecutorHost } from "./executor.js";
import { StepAssignmentSchema, StepLeaseSchema } from "./gen/pawl/v1/worker_pb.js";
import type { HandlerTable } from "./handlers.js";
import { HeldStep } from "./held_step.js";

test("an answer that there is no room for is told again, and not as an error", async () => {
  const told: unknown[] = [];
  let credits = 0;
  const host: ExecutorHost = {
    draining: false,
    ask: async (make) => {
      told.push(make().item);
      if (told.length <= 3) {
        throw new PawlError("limit", "no room", { reason: "DISK_LOW", retryAfterMs: 1 });
      }
      return undefined as never;
    },
    credit: (_, steps) => {
      credits += steps;
    },
    forget: () => undefined,
    told: () => undefined,
  };
  const table = { call: async () => ({ seat: 1 }) } as unknown as HandlerTable;
  const named = { runId: "r", step: 1, tool: "book", attempt: 1, token: "t" };
  const lease = create(StepLeaseSchema, named);
  const held = new HeldStep(create(StepAssignmentSchema, { lease, payloadJson: "{}" }), lease);
  await new Executor(table, host, 0).step(held);
  expect(told).toHaveLength(4);
  for (const item of told) {
    expect(item).toMatchObject({ value: { answer: { case: "resultJson", value: '{"seat":1}' } } });
  }
  expect(credits).toBe(1);
});
