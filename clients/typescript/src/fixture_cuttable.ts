/** A way to the sidecar that can be cut, and held up. */

import { createServer, connect as dial, type Server, type Socket } from "node:net";
import { PingCounter } from "./fixture_frames.js";

/** A proxy of TCP connections that sees the client's pings. */
export class Cuttable {
  readonly #sockets = new Set<Socket>();
  /** To the sidecar, by the socket that the client has opened. */
  readonly #transports = new Map<Socket, Socket>();
  readonly #server: Server;
  readonly #awaited: { pings: number; seen: () => void }[] = [];
  cuts = 0;
  /** Connections that were made. */
  connections = 0;
  /** Pings of the client over the newest connection. */
  pings = 0;
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

  /** Lets nothing more go to the sidecar; what comes from it is still passed on. */
  hold(): void {
    for (const [near, far] of this.#transports) {
      near.unpipe(far).pause();
    }
  }

  /** Lets nothing go either way over the connections that there are; new ones work. */
  swallow(): void {
    this.hold();
    for (const far of this.#transports.values()) {
      far.unpipe().pause();
    }
    this.#transports.clear();
  }

  /** Lets go what was held up. */
  release(): void {
    for (const [near, far] of this.#transports) {
      near.pipe(far);
    }
  }

  /** Resolves once the client has pinged so often over one connection. */
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
