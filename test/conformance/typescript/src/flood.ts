/** Heartbeats as fast as they go, which no worker of the client sends: by the stubs. */

import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { WorkerService, type WorkRequest, WorkRequestSchema } from "pawl-client/v1";

const RESOURCE_EXHAUSTED = 8;

/** Sends them, and counts the receipts that took or refused them. `address` is HOST:PORT. */
export async function flood(
  address: string,
  { beats = 0, packs = [] }: { readonly beats?: number; readonly packs?: readonly string[] },
): Promise<{ ok: number; refused: number; other: number }> {
  const workers = createClient(
    WorkerService,
    createGrpcTransport({ baseUrl: `http://${address}` }),
  );
  const end = new AbortController();
  const counts = { ok: 0, refused: 0, other: 0 };
  async function* requests(): AsyncGenerator<WorkRequest> {
    const worker = { workerId: "flood", packs: [...packs], prompts: ["*"], turnCapacity: 1 };
    yield create(WorkRequestSchema, { item: { case: "register", value: worker } });
    for (let id = 1n; id <= BigInt(beats); id += 1n) {
      yield create(WorkRequestSchema, { id, item: { case: "heartbeat", value: {} } });
    }
    // The stream stays open until all receipts have come.
    await new Promise((resolve) => end.signal.addEventListener("abort", resolve));
  }
  for await (const { item } of workers.work(requests(), { timeoutMs: 50_000 })) {
    if (item.case === "receipt") {
      const code = item.value.error?.code;
      counts[code === undefined ? "ok" : code === RESOURCE_EXHAUSTED ? "refused" : "other"] += 1;
      if (counts.ok + counts.refused + counts.other === beats) {
        break;
      }
    }
  }
  end.abort();
  return counts;
}
