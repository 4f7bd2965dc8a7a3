/** What the specs share: packs, and a sidecar for a whole file. */

import { createServer, connect as dial, type Server, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll } from "vitest";
import type { PawlClient } from "./client.js";
import { Sidecar, type SidecarOptions } from "./testing.js";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** RFC 0009 example 3: work (3 visits) -> complete | give_up. */
export const SELF_CORRECTING = at("../../../testdata/packs/rfc0009-3-self-correcting.json");

/** calc (tools add, boom, forbidden) -> ask (external) -> end. */
export const STEPS = at("../testdata/steps.pack.json");

/** One sidecar and one client for all specs of a file. */
export function useSidecar(options: SidecarOptions = {}): { sidecar: Sidecar; client: PawlClient } {
  const shared = {} as { sidecar: Sidecar; client: PawlClient };
  beforeAll(async () => {
    shared.sidecar = await Sidecar.start({
      packs: [SELF_CORRECTING, STEPS],
      allowTools: ["add", "boom"],
      ...options,
    });
    shared.client = shared.sidecar.client();
  });
  afterAll(async () => {
    shared.client?.close();
    await shared.sidecar?.close();
  });
  return shared;
}

/** Lets somebody wait until somebody else has come somewhere. */
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

/** A way to the sidecar that can be cut. */
export class Cuttable {
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  cuts = 0;
  /** Cuts once, when this many bytes have gone to the sidecar; 0: does not. */
  cutAfter = 0;

  constructor(address: string) {
    const [host, port] = address.split(":");
    this.#server = createServer((near) => {
      const far = dial(Number(port), host);
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.on("error", () => undefined);
        socket.on("close", () => this.#sockets.delete(socket));
      }
      near.on("data", (data) => this.#count(data.length));
      near.pipe(far).pipe(near);
    });
  }

  #count(bytes: number): void {
    if (this.cutAfter > 0) {
      this.cutAfter -= Math.min(bytes, this.cutAfter);
      if (this.cutAfter === 0) {
        this.cut();
      }
    }
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  cut(): void {
    this.cuts += 1;
    for (const socket of this.#sockets) {
      socket.resetAndDestroy();
    }
  }

  close(): void {
    this.cut();
    this.#server.close();
  }
}
