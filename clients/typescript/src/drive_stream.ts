/** One Drive stream: commands to runs, and their answers. */

import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError } from "@connectrpc/connect";
import { brand, isBranded } from "./brand.js";
import { errorOf } from "./errors.js";
import {
  type DriveAnswer,
  DriveCommandSchema,
  type DriveRequest,
  DriveRequestSchema,
  type RunService,
} from "./gen/pawl/v1/run_pb.js";
import { enclosed, Outbox, type Parcel } from "./outbox.js";
import { later } from "./timer.js";

/** What is asked, without its number. */
export type Command = MessageInitShape<typeof DriveCommandSchema>["command"];

/** Who may end the wait for an answer. */
export interface Limits {
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number | undefined;
}

/** The error of commands to a stream that could not be opened, with what was said of it. */
class Unopened extends Error {
  static {
    brand(Unopened, "Unopened");
  }
}

/** Whether a stream of commands could not be opened: what was to go over it was never sent. */
export function isUnopened(error: unknown): error is Error {
  return isBranded(error, "Unopened");
}

interface Waiting {
  resolve(answer: DriveAnswer): void;
  reject(error: unknown): void;
}

function together(commands: readonly Parcel[]): DriveRequest {
  const { number } = DriveRequestSchema.field.commands;
  return {
    ...create(DriveRequestSchema),
    $unknown: commands.map((command) => enclosed(number, command)),
  };
}

/** One stream. Whoever asks keeps what a new stream needs to be asked again. */
export class DriveStream {
  readonly #outbox = new Outbox<Parcel, DriveRequest>(together);
  readonly #waiting = new Map<number, Waiting>();
  readonly #maxBytes: number;
  #last = 0;
  #opened = false;
  #over = false;

  /** `maxBytes` bounds a message. Nothing goes out before the sidecar has spoken. */
  constructor(runs: Client<typeof RunService>, maxBytes: number) {
    this.#maxBytes = maxBytes;
    void this.#receive(runs);
  }

  /** Nothing more can be asked. */
  get over(): boolean {
    return this.#over;
  }

  /** A command as it goes out; undefined: it is too large for a message. */
  parcel(command: Command): (Parcel & { readonly id: number }) | undefined {
    this.#last += 1;
    const message = create(DriveCommandSchema, { id: BigInt(this.#last), command });
    const bytes = toBinary(DriveCommandSchema, message);
    return bytes.length + AROUND > this.#maxBytes ? undefined : { id: this.#last, bytes };
  }

  /**
   * Sends a command and gives its answer. Throws Unopened, or as a call: who gives up
   * waiting, or loses the stream, does not know whether it happened.
   */
  ask(parcel: Parcel & { readonly id: number }, limits: Limits): Promise<DriveAnswer> {
    const { signal, timeoutMs } = limits;
    return new Promise((resolve, reject) => {
      const done = () => {
        timer?.cancel();
        signal?.removeEventListener("abort", stop);
        this.#waiting.delete(parcel.id);
      };
      const give = (why: unknown) => {
        done();
        this.#outbox.withdraw(parcel);
        reject(why);
      };
      const stop = () => give(new ConnectError("the call was cancelled", Code.Canceled));
      const late = () => give(new ConnectError("the operation timed out", Code.DeadlineExceeded));
      const timer = timeoutMs === undefined ? undefined : later(timeoutMs, late);
      signal?.addEventListener("abort", stop, { once: true });
      this.#waiting.set(parcel.id, {
        resolve: (answer) => {
          done();
          resolve(answer);
        },
        reject: (error) => {
          done();
          reject(error);
        },
      });
      this.#outbox.push(parcel);
    });
  }

  /** Ends the sending; what was sent before is still answered. */
  finish(): void {
    this.#over = true;
    this.#outbox.close();
  }

  async #receive(runs: Client<typeof RunService>): Promise<void> {
    let why: unknown;
    try {
      for await (const { window, answers } of runs.drive(this.#outbox)) {
        if (window > 0) {
          this.#opened = true;
          this.#outbox.open({ parcels: window, bytes: this.#maxBytes });
        }
        for (const answer of answers) {
          this.#waiting.get(Number(answer.id))?.resolve(answer);
        }
      }
      why = lost();
    } catch (error) {
      why = error;
    }
    this.finish();
    const error = this.#opened ? lostBy(why) : new Unopened("no Drive stream", { cause: why });
    for (const waiting of [...this.#waiting.values()]) {
      waiting.reject(error);
    }
  }
}

/** Tags and lengths around a command that is alone in its message, bytes. */
const AROUND = 16;

/** The error of commands whose stream ended before their answers: perhaps another one helps. */
function lostBy(why: unknown): unknown {
  return ["unavailable", "cancelled"].includes(errorOf(why).kind) ? why : lost(why);
}

function lost(cause?: unknown): ConnectError {
  const text = "the stream ended before the answer";
  return new ConnectError(text, Code.Unavailable, undefined, undefined, cause);
}
