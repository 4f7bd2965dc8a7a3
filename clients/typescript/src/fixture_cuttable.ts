/** A proxy between a client and a sidecar. Tests can cut it or stop its data. */

import { createServer, connect as dial, type Server, type Socket } from "node:net";
import { PingCounter } from "./fixture_frames.js";

/** A proxy of TCP connections that sees the client's pings. */
export class Cuttable {
  readonly #sockets = new Set<Socket>();
  /** The sockets to the sidecar, by the client's socket whose data they carry. */
  readonly #transports = new Map<Socket, Socket>();
  readonly #server: Server;
  readonly #awaited: { pings: number; seen: () => void }[] = [];
  cuts = 0;
  /** Connections that were made. */
  connections = 0;
  /** Pings of the client over the newest connection. */
  pings = 0;
  /** The connections are cut once, after this many bytes to the sidecar; 0: they are not cut. */
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
      this.connections += 1;
      const counter = new PingCounter();
      near.on("data", (data) => {
        counter.take(data);
        this.#pinged(counter.pings);
        this.#count(data.length);
      });
      near.pipe(far).pipe(near);
      this.#transports.set(near, far);
      near.on("close", () => this.#transports.delete(near));
    });
  }

  /** Stops the data to the sidecar. Data from the sidecar is still passed on. */
  hold(): void {
    for (const [near, far] of this.#transports) {
      near.unpipe(far).pause();
    }
  }

  /** Stops the data of the existing connections in both directions. New connections work. */
  swallow(): void {
    this.hold();
    for (const far of this.#transports.values()) {
      far.unpipe().pause();
    }
    this.#transports.clear();
  }

  /** Passes on the data that `hold` or `swallow` stopped. */
  release(): void {
    for (const [near, far] of this.#transports) {
      near.pipe(far);
    }
  }

  /** Resolves when the client has sent this many pings over one connection. */
  pinged(pings: number): Promise<void> {
    return new Promise((seen) => {
      this.#awaited.push({ pings, seen });
      this.#pinged(this.pings);
    });
  }

  #pinged(pings: number): void {
    this.pings = pings;
    for (const { pings: wanted, seen } of this.#awaited) {
      if (pings >= wanted) {
        seen();
      }
    }
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
