/** A worker by hand: it does what no worker of this package does. */

import { Connection } from "./connection.js";
import type { PawlError } from "./errors.js";
import type { WorkResponse } from "./gen/pawl/v1/worker_pb.js";
import { nodeTransport } from "./node_transport.js";
import { Session } from "./worker_session.js";

type Item = WorkResponse["item"];
type Named<Name extends Item["case"]> = Extract<Item, { case: Name }>;

/** One stream, registered for the turns of prompt calc. */
export class RawWorker implements Disposable {
  readonly session: Session;
  /** Resolves with why the stream ended. */
  readonly ended: Promise<PawlError>;
  readonly #close: () => void;
  readonly #items: Item[] = [];
  #wake: () => void = () => undefined;

  private constructor(session: Session, close: () => void) {
    this.session = session;
    this.#close = close;
    this.ended = session.receive(({ item }) => {
      this.#items.push(item);
      this.#wake();
    });
  }

  static async register(address: string, registration: object = {}): Promise<RawWorker> {
    const { transport, sessions } = nodeTransport({ address });
    const connection = new Connection(transport, {});
    const session = new Session(connection.workers, connection.maxMessageBytes);
    const prompts = { prompts: ["calc"], turnCapacity: 1 };
    await session.register("", { workerId: "hand", ...prompts, ...registration });
    return new RawWorker(session, () => sessions.abort());
  }

  /** Takes the next item of a kind, those before it left out. */
  async next<Name extends Item["case"]>(name: Name): Promise<Named<Name>> {
    for (;;) {
      const at = this.#items.findIndex((item) => item.case === name);
      if (at >= 0) {
        return this.#items.splice(0, at + 1).at(-1) as Named<Name>;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  [Symbol.dispose](): void {
    this.session.close();
    this.#close();
  }
}
