/** One stream of a worker, against a service that is made of functions. */

import { create } from "@bufbuild/protobuf";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import {
  WorkerService,
  type WorkRequest,
  WorkRequestSchema,
  type WorkResponse,
  WorkResponseSchema,
} from "./gen/pawl/v1/worker_pb.js";
import { Session } from "./worker_session.js";

const registered = (maxMessageBytes = 1n << 20n) =>
  create(WorkResponseSchema, { item: { case: "registered", value: { maxMessageBytes } } });
const receipts = ([id, ...more]: bigint[]): WorkResponse =>
  create(WorkResponseSchema, {
    item: { case: "receipt", value: { id } },
    more: more.map((other) => receipts([other])),
  });
const heartbeat = { item: { case: "heartbeat" as const, value: {} } };

/** A session that is registered, and the messages that the server gets of it. */
async function session(first: WorkResponse, maxBytes = 1 << 20) {
  const messages: WorkRequest[] = [];
  const transport = createRouterTransport(({ service }) =>
    service(WorkerService, {
      async *work(requests: AsyncIterable<WorkRequest>) {
        for await (const message of requests) {
          messages.push(message);
          if (message.item.case === "register") {
            yield first;
            continue;
          }
          yield receipts([message, ...message.more].map(({ id }) => id));
        }
      },
    }),
  );
  const opened = new Session(createClient(WorkerService, transport), maxBytes);
  await opened.register("", { workerId: "me" });
  return { opened, messages };
}

test("requests and receipts that are ready at once share a message", async () => {
  const { opened, messages } = await session(registered());
  const ended = opened.receive(() => undefined);
  const ids = await Promise.all(Array.from({ length: 3 }, () => opened.ask(heartbeat)));
  expect(ids.map(({ id }) => id)).toEqual([1n, 2n, 3n]);
  await opened.ask(heartbeat);
  opened.close();
  await ended;
  expect(messages[0]?.item).toMatchObject({ case: "register", value: { batches: true } });
  const sent = messages.slice(1).map(({ id, more }) => [id, ...more.map((other) => other.id)]);
  expect(sent).toEqual([[1n, 2n, 3n], [4n]]);
  expect(messages[1]?.more[0]).toEqual(create(WorkRequestSchema, { ...heartbeat, id: 2n }));
});

test("a message stays within what the server takes", async () => {
  const { opened, messages } = await session(registered(100n));
  const ended = opened.receive(() => undefined);
  const item = { case: "output" as const, value: { token: "x".repeat(50), text: "" } };
  await Promise.all(Array.from({ length: 3 }, () => opened.ask({ item })));
  await expect(
    opened.ask({ item: { case: "output", value: { token: "x".repeat(100) } } }),
  ).rejects.toMatchObject({ reason: "MESSAGE_TOO_LARGE", limit: 100 });
  opened.close();
  await ended;
  expect(messages.slice(1).map(({ more }) => more.length)).toEqual([0, 0, 0]);
});
