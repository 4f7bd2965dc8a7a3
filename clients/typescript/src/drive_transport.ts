/** Calls to runs that share a stream. */

import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createClient,
  type Transport,
  type UnaryResponse,
} from "@connectrpc/connect";
import { type Command, DriveStream, isUnopened } from "./drive_stream.js";
import { errorOf } from "./errors.js";
import { type DriveAnswer, DriveCommandSchema, RunService } from "./gen/pawl/v1/run_pb.js";
import { statusError } from "./status.js";

/** A transport whose calls share a stream while somebody needs it. */
export interface SharedTransport extends Transport {
  /** Somebody drives a run from now on; what is returned is called in the end. */
  enter(): () => void;
}

/** Requests that a stream takes, by their types, and how it names them. */
const COMMANDS: ReadonlyMap<string, string> = new Map(
  DriveCommandSchema.oneofs
    .flatMap((oneof) => oneof.fields)
    .map((field) => [field.message?.typeName ?? "", field.localName]),
);

/**
 * Size up to which commands share a message, bytes. Every sidecar takes that (its
 * --limits-message-bytes is 64 KiB at least), and a message that it does not take would end
 * the stream for all; a larger request is a call of its own, refused by itself.
 */
const MOST_SHARED_BYTES = 64 << 10;

/** A stream tells neither of single calls. */
const NO_HEADERS = new Headers();

/**
 * Makes the calls that move runs over one Drive stream, all others, and those too where
 * there is no such stream, over the transport below. The stream is opened by the first call
 * of those who have entered, again after it broke, and closed when the last of them has left.
 */
export class DriveTransport implements SharedTransport {
  readonly stream: Transport["stream"];
  readonly #below: Transport;
  readonly #maxBytes: number;
  readonly #named: (error: unknown) => unknown;
  #stream: DriveStream | undefined;
  #drivers = 0;
  /** The server has no such streams. */
  #unknown = false;

  /** `maxBytes` bounds a request; `named` says in an error where the sidecar is. */
  constructor(below: Transport, maxBytes: number, named: (error: unknown) => unknown) {
    this.stream = below.stream.bind(below);
    this.#below = below;
    this.#maxBytes = Math.min(maxBytes, MOST_SHARED_BYTES);
    this.#named = named;
  }

  enter(): () => void {
    this.#drivers += 1;
    return () => {
      this.#drivers -= 1;
      if (this.#drivers === 0) {
        this.#stream?.finish();
        this.#stream = undefined;
      }
    };
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    ...call: Unary<I, O>
  ): Promise<UnaryResponse<I, O>> {
    const [method, signal, timeoutMs, , input] = call;
    const name = method.parent === RunService ? COMMANDS.get(method.input.typeName) : undefined;
    if (name === undefined || this.#unknown || this.#drivers === 0) {
      return this.#below.unary(...call);
    }
    const stream = this.#open();
    const value: Message = create(method.input, input);
    const parcel = stream.parcel({ case: name, value } as Command);
    if (!parcel) {
      return this.#below.unary(...call);
    }
    try {
      return answered(method, name, await stream.ask(parcel, { signal, timeoutMs }));
    } catch (error) {
      if (isUnopened(error)) {
        return this.#alone(error.cause, call);
      }
      throw this.#named(error);
    }
  }

  #open(): DriveStream {
    if (!this.#stream || this.#stream.over) {
      this.#stream = new DriveStream(createClient(RunService, this.#below), this.#maxBytes);
    }
    return this.#stream;
  }

  /** Makes a call by itself, unless what kept the stream from being opened concerns it too. */
  #alone<I extends DescMessage, O extends DescMessage>(why: unknown, call: Unary<I, O>) {
    const { kind, code } = errorOf(why);
    if (kind === "unavailable" || kind === "cancelled") {
      throw why;
    }
    this.#unknown ||= code === "UNIMPLEMENTED";
    return this.#below.unary(...call);
  }
}

type Unary<I extends DescMessage, O extends DescMessage> = [
  method: DescMethodUnary<I, O>,
  signal: AbortSignal | undefined,
  timeoutMs: number | undefined,
  header: HeadersInit | undefined,
  input: MessageInitShape<I>,
];

/** An answer as that of the call; throws if it is an error. */
function answered<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  name: string,
  { answer }: DriveAnswer,
): UnaryResponse<I, O> {
  if (answer.case === "error") {
    throw statusError(answer.value);
  }
  if (answer.case !== name) {
    throw new ConnectError(`an answer to ${name} that is none`, Code.Internal);
  }
  return {
    stream: false,
    service: method.parent,
    method,
    header: NO_HEADERS,
    trailer: NO_HEADERS,
    message: answer.value as unknown as MessageShape<O>,
  };
}
