/** What the specs share: packs, and a sidecar for a whole file. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll } from "vitest";
import type { PawlClient } from "./client.js";
import type { Log } from "./log.js";
import { Sidecar, type SidecarOptions } from "./testing.js";
import type { Worker } from "./worker.js";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** RFC 0009 example 3: work (3 visits) -> complete | give_up. */
export const SELF_CORRECTING = at("../../../testdata/packs/rfc0009-3-self-correcting.json");

/** calc (tools add, boom, forbidden) -> ask (external) -> end. */
export const STEPS = at("../testdata/steps.pack.json");

/** RFC 0011: triage -> investigate -> triage ... -> done, with agents triage and analyst. */
export const AGENTS = at("../../../testdata/packs/rfc0011-1-security-review.yaml");

/** The steps pack under another id, with other bounds. */
export function stepsPack(id: string, bounds: object): string {
  const pack = JSON.parse(readFileSync(STEPS, "utf8"));
  const { x_pawl } = pack.workflow.engine;
  return JSON.stringify({
    ...pack,
    id,
    workflow: { ...pack.workflow, engine: { x_pawl: { ...x_pawl, ...bounds } } },
  });
}

/** Lets a worker serve until the end of a block. */
export function serving(worker: Worker): AsyncDisposable & { readonly served: Promise<void> } {
  const served = worker.serve();
  served.catch(() => undefined);
  return { served, [Symbol.asyncDispose]: () => worker.stop() };
}

/** Lets workers serve until the end of a spec. Not for specs that run at the same time. */
export function useWorkers(): (worker: Worker) => Promise<void> {
  const working: Worker[] = [];
  afterEach(async () => {
    await Promise.all(working.splice(0).map((worker) => worker.stop()));
  });
  return (worker) => {
    const served = worker.serve();
    served.catch(() => undefined);
    working.push(worker);
    return served;
  };
}

/** Says nothing: what handlers throw on purpose is no news. */
export const QUIET: Log = { info: () => undefined, warn: () => undefined };

/** One sidecar and one client for all specs of a file. */
export function useSidecar(options: SidecarOptions = {}): { sidecar: Sidecar; client: PawlClient } {
  const shared = {} as { sidecar: Sidecar; client: PawlClient };
  beforeAll(async () => {
    shared.sidecar = await Sidecar.start({
      packs: [SELF_CORRECTING, STEPS],
      allowTools: ["add", "boom"],
      ...options,
    });
    shared.client = shared.sidecar.client({ log: QUIET });
  });
  afterAll(async () => {
    shared.client?.close();
    await shared.sidecar?.close();
  });
  return shared;
}

/** Lets one task wait until another task has reached a point. */
export class Gate {
  open: () => void = () => undefined;
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

/** All items of an iterable. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const item of items) {
    out.push(item);
  }
  return out;
}
