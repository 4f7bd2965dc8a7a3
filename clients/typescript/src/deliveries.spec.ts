/** What a worker sends when it connects again, and in its heartbeats, to a scripted sidecar. */

import { createServer, type Http2Server } from "node:http2";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { anyPack, durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { afterEach, expect, test } from "vitest";
import { Gate } from "./fixture.js";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import {
  type TurnLeaseSchema,
  type WorkerRegistration,
  WorkerService,
  type WorkRequest,
  type WorkResponseSchema,
} from "./gen/pawl/v1/worker_pb.js";
import { PawlClient, type Worker } from "./index.js";

type Response = MessageInitShape<typeof WorkResponseSchema>;
type TurnLease = MessageInitShape<typeof TurnLeaseSchema>;

/** One stream of the scripted sidecar. */
class Stream {
  readonly #requests: AsyncIterator<WorkRequest>;

  constructor(requests: AsyncIterable<WorkRequest>) {
    this.#requests = requests[Symbol.asyncIterator]();
  }

  /** Reads requests until one is found. */
  async until(found: (request: WorkRequest) => boolean): Promise<void> {
    for (;;) {
      const { value, done } = await this.#requests.next();
      if (done) {
        throw new Error("the worker's stream ended");
      }
      // All requests of a message are checked, also those after the one that ends the wait.
      const met = [value, ...value.more].map(found);
      if (met.includes(true)) {
        return;
      }
    }
  }

  async registration(): Promise<WorkerRegistration> {
    let got: WorkerRegistration | undefined;
    await this.until(({ item }) => {
      got = item.case === "register" ? item.value : undefined;
      return got !== undefined;
    });
    return got as WorkerRegistration;
  }
}

/** What a stream does once the worker has registered. */
type Part = (stream: Stream, register: WorkerRegistration) => AsyncGenerator<Response>;

const servers: Http2Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
  }
});

/** Runs a worker against a scripted sidecar; each stream of the worker executes the next part. */
async function play(build: (client: PawlClient) => Worker, ...parts: Part[]): Promise<void> {
  const done = new Gate();
  const failures: unknown[] = [];
  async function* work(requests: AsyncIterable<WorkRequest>): AsyncGenerator<Response> {
    const part = parts.shift();
    if (!part) {
      return;
    }
    try {
      const stream = new Stream(requests);
      yield* part(stream, await stream.registration());
    } catch (error) {
      failures.push(error);
    }
    if (parts.length === 0 || failures.length > 0) {
      done.open();
    }
  }
  const handler = connectNodeAdapter({
    routes: (router) => router.rpc(WorkerService.method.work, work),
  });
  const server = createServer(handler);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  using client = new PawlClient({ address: `127.0.0.1:${port}` });
  const worker = build(client);
  const served = worker.serve();
  await done.opened;
  await worker.stop();
  await served;
  expect(failures).toEqual([]);
}

function registered(...keptTurns: TurnLease[]): Response {
  const value = {
    maxMessageBytes: 1n << 20n,
    heartbeatInterval: durationFromMs(20),
    turnCapacity: 2,
    stepCapacity: 2,
    keptTurns,
  };
  return { item: { case: "registered", value } };
}

function step(number: number, delivery: bigint): Response {
  const lease = { runId: "r", step: number, tool: "book", attempt: 1, token: `step-${number}` };
  return { item: { case: "step", value: { lease, payloadJson: "{}", delivery } } };
}

function turnLease(attempt: number, delivery: number, token: string): TurnLease {
  const duration = durationFromMs(60_000);
  return { runId: "r", turnSeq: 2n, attempt, delivery, token, duration };
}

function turn(lease: TurnLease): Response {
  const { turnSeq, attempt } = lease;
  const shown = { prompt: "p", turn: { turnSeq, attempt } };
  return { item: { case: "turn", value: { lease, turn: shown } } };
}

test("each registration says the highest number of a step that came", async () => {
  const instances: string[] = [];
  const expected = ({ receivedSteps, instance }: WorkerRegistration, want: bigint) => {
    instances.push(instance);
    expect(receivedSteps).toBe(want);
  };
  const answers =
    (number: number) =>
    ({ item }: WorkRequest) =>
      item.case === "resolveStep" && item.value.step === number;
  await play(
    (client) => client.worker({ workerId: "w", drainTimeoutMs: 0 }).tool("book", () => 1),
    async function* (stream, register) {
      expected(register, 0n);
      yield registered();
      yield step(1, 3n);
      yield step(2, 7n);
      await stream.until(answers(2));
    },
    async function* (stream, register) {
      expected(register, 7n);
      yield registered();
      yield step(3, 5n); // A lower number does not reduce the count.
      await stream.until(answers(3));
    },
    // biome-ignore lint/correctness/useYield: the last part only checks the registration.
    async function* (_, register) {
      expected(register, 7n);
      expect(instances[0]).not.toBe("");
      expect(new Set(instances).size).toBe(1);
    },
  );
});

// The next attempt of a turn may arrive before the receipt for the failure of the previous one.
// If the stream breaks then, the worker keeps only the lease of the new attempt. With both, it
// would report the old failure under the new lease.
test("only the delivery that is kept goes on, and heartbeats name each", async () => {
  const fails = ({ item }: WorkRequest) => item.case === "failTurn";
  await play(
    (client) =>
      client.worker({ workerId: "w", turns: 2, drainTimeoutMs: 0 }).prompt("*", (held) => {
        if (held.info.turn?.attempt === 1) {
          throw new Error("it fails");
        }
        return new Promise<never>(() => undefined);
      }),
    async function* (stream) {
      yield registered();
      yield turn(turnLease(1, 1, "one"));
      await stream.until(fails);
      yield turn(turnLease(2, 2, "two"));
      let named = "";
      while (named !== "one,two") {
        let prompt = 0n;
        await stream.until(({ id, item }) => {
          prompt = id;
          named = item.case === "heartbeat" ? item.value.tokens.toSorted().join() : "";
          return item.case === "heartbeat";
        });
        // The worker sends another one once this one has its receipt.
        const answer = { case: "heartbeat" as const, value: {} };
        yield { item: { case: "receipt", value: { id: prompt, answer } } };
      }
    },
    async function* (stream, register) {
      expect(register.heldTurns).toHaveLength(2);
      yield registered(turnLease(2, 2, "kept"));
      await stream.until((request) => {
        expect(fails(request), "a failure under the lease of another delivery").toBe(false);
        // The worker gives a credit, because the abandoned turn no longer uses its capacity.
        return request.credits?.turns === 1;
      });
    },
  );
});

// If the worker reported an error or dropped the answer, the call would be made a second time.
test("an answer that there is no room for is told again, and not as an error", async () => {
  const report: string[] = [];
  const answers: (request: WorkRequest) => boolean = ({ id, item }) => {
    if (item.case === "resolveStep" && item.value.answer.case === "resultJson") {
      report.push(`${id > 0n}: ${item.value.answer.value}`);
      prompt = id;
    }
    return item.case === "resolveStep";
  };
  let prompt = 0n;
  await play(
    (client) =>
      client.worker({ workerId: "w", drainTimeoutMs: 0 }).tool("book", () => ({ seat: 1 })),
    async function* (stream) {
      yield registered();
      yield step(1, 1n);
      for (let refusals = 0; refusals < 3; refusals += 1) {
        await stream.until(answers);
        yield { item: { case: "receipt", value: { id: prompt, error: diskFull() } } };
      }
      await stream.until(answers);
      yield { item: { case: "receipt", value: { id: prompt } } };
      // The place of the step is free again.
      await stream.until(({ credits }) => credits?.steps === 1);
    },
  );
  expect(report).toEqual(Array(4).fill('true: {"seat":1}'));
});

function diskFull() {
  const info = create(ErrorInfoSchema, { reason: "DISK_LOW", domain: "pawl.dev" });
  const retry = create(RetryInfoSchema, { retryDelay: durationFromMs(1) });
  const details = [anyPack(ErrorInfoSchema, info), anyPack(RetryInfoSchema, retry)];
  return { code: Code.ResourceExhausted, message: "no room", details };
}
