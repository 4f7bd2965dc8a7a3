/** The client for Node. */

import { type BlobContent, type BlobHead, getBlob, putBlob } from "./blobs.js";
import { brand } from "./brand.js";
import { BaseClient } from "./client_base.js";
import { type Driven, type DriveOptions, driven, type OnOutput, startDrive } from "./drive.js";
import type { ExactHandlers } from "./exact_types.js";
import {
  type RegisterPackResponse,
  RegisterPackResponseSchema,
  type ValidatePackResponse,
  ValidatePackResponseSchema,
} from "./gen/pawl/v1/pack_pb.js";
import { Execution } from "./gen/pawl/v1/record_pb.js";
import { StartRunResponseSchema } from "./gen/pawl/v1/run_pb.js";
import type { Http2Sessions } from "./http2_sessions.js";
import { toJsonText } from "./json_text.js";
import { type NodeOptions, nodeTransport, withEnvironment } from "./node_transport.js";
import type { Plain } from "./plain_message.js";
import { type CallOptions, newId } from "./retry.js";
import { Run } from "./run.js";
import type { RunInfo } from "./run_reader.js";
import { serverOf } from "./run_server.js";
import type { Handlers } from "./served_run.js";
import { importRun } from "./time_travel.js";
import type { Tools } from "./tools.js";
import type { AnyPack, Entry, PackName, PackTypes } from "./types.js";
import { type Content, partsOf } from "./values.js";
import { Worker } from "./worker.js";
import type { WorkerOptions } from "./worker_options.js";

/**
 * What to start a run with.
 *
 *     await client.start("my-pack", { variables: { n: 3 }, input: "go", labels: { team: "a" } });
 */
export type StartOptions<P extends PackTypes = AnyPack> = Beginning & Entry<P>;

/** As for `start`, and the tools that are executed here. */
export type RunOptions<P extends PackTypes = AnyPack> = StartOptions<P> & {
  readonly tools?: Tools<P>;
  /** Gets every event of the run, in order; what it throws gives the run up, and is thrown. */
  readonly onOutput?: OnOutput;
};

/** What executes the turns of a run that its caller leaves to others. */
export interface Executed {
  /**
   * `Execution.SIDECAR`: the sidecar asks the models of its operator (`serve --model`) by
   * itself, and workers make the calls of tools. Default: workers execute the turns.
   */
  readonly execution?: Execution.WORKERS | Execution.SIDECAR;
}

/** What every start may have, besides `variables` and the member key of an `agent` to enter
 * at, or the `state`: another one than the pack's entry needs admin. */
export interface Beginning extends CallOptions {
  /** The first message. */
  readonly input?: Content;
  /** Labels to find it by. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Idempotency id of the caller's own. Default: a fresh one, kept over repetitions. */
  readonly requestId?: string;
  /** Lowers the pack's max_steps. Default 0: the pack's. */
  readonly maxSteps?: number;
}

/** How to read a pack document: JSON or YAML. */
export interface PackOptions extends CallOptions {
  /** Tells JSON from YAML by its ending, and is shown in messages. */
  readonly filename?: string;
  /** Applies one published schema exactly: "1.4.0" or "1.5.0". Default: their union. */
  readonly strictSchema?: string;
}

/**
 * A client of one sidecar over gRPC. Safe to share.
 *
 * Every writing call has an idempotency id that is kept over its repetitions, so that
 * it takes effect once, also when the sidecar is killed in its midst. Errors: see
 * PawlError. Use `using`, or call `close`.
 *
 *     using client = new PawlClient({ address: "127.0.0.1:7291" });
 *     const result = await client.run("my-pack", (turn) =>
 *       turn.terminal ? { output: "done" } : { event: "Success" },
 *     );
 *     console.log(result.status, result.artifacts);
 */
export class PawlClient extends BaseClient {
  static {
    brand(PawlClient, "PawlClient");
  }

  readonly #sessions: Http2Sessions;
  /** Those of the stream of driven runs. */
  readonly #driving: Http2Sessions;

  constructor(options: NodeOptions = {}) {
    const settings = withEnvironment(options);
    const { transport, sessions } = nodeTransport(settings);
    const driving = nodeTransport(settings);
    super(transport, settings, driving.transport);
    this.#sessions = sessions;
    this.#driving = driving.sessions;
  }

  /**
   * Closes the connection. Calls under way end with a PawlError of kind "cancelled", and so do
   * runs that are driven: another process, or a later `drive`, goes on with them. Tools of driven
   * runs that are at work are asked to stop, by their signal. For 5 s at most a stream stays in
   * the background, and the process with it, to report what they did; the outcome of a tool that
   * takes longer is unknown.
   */
  close(): void {
    const reported = serverOf(this.connection).close();
    this.#sessions.abort();
    if (reported) {
      void reported.then(() => this.#driving.retire());
    } else {
      this.#driving.retire();
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Checks a document without storing it. */
  validatePack(
    document: string | Uint8Array,
    options: PackOptions = {},
  ): Promise<Plain<ValidatePackResponse>> {
    const { packs } = this.connection;
    const request = this.#document(document, options);
    return this.connection.call(
      ValidatePackResponseSchema,
      (rpc) => packs.validatePack(request, rpc),
      options,
    );
  }

  /**
   * Checks and stores a document. The same bytes again are the same answer. Reasons:
   * PACK_INVALID, PACK_VERSION_TAKEN.
   */
  registerPack(
    document: string | Uint8Array,
    options: PackOptions & {
      /** Lets the bare id mean this version. Default true. */
      readonly makeDefault?: boolean;
      /** Lets a taken id@version point to other bytes. Default false. */
      readonly moveVersion?: boolean;
    } = {},
  ): Promise<Plain<RegisterPackResponse>> {
    const { packs } = this.connection;
    const request = {
      ...this.#document(document, options),
      makeDefault: options.makeDefault ?? true,
      moveVersion: options.moveVersion ?? false,
    };
    return this.connection.call(
      RegisterPackResponseSchema,
      (rpc) => packs.registerPack(request, rpc),
      options,
    );
  }

  /**
   * Starts a run and leaves its turns to workers, or to the sidecar. `pack` is "id",
   * "id@version" or a digest. Reasons: PACK_NOT_FOUND, NO_SUCH_ENTRY, BAD_VARIABLES, BAD_LABEL,
   * NO_MODELS, NO_SUCH_MODEL. Throws a RangeError for another `execution`: a run that the caller
   * executes is begun by `open` or `run`.
   */
  start<P extends PackTypes = AnyPack>(
    pack: string | PackName<P>,
    options: NoInfer<StartOptions<P>> & Executed = {} as StartOptions<P> & Executed,
  ): Promise<Run<P>> {
    const { execution = Execution.WORKERS } = options;
    if (execution !== Execution.WORKERS && execution !== Execution.SIDECAR) {
      const text = "execution: Execution.WORKERS or Execution.SIDECAR";
      throw new RangeError(`${text}, not ${Execution[execution] ?? execution}`);
    }
    return this.#start(execution, pack, options);
  }

  /** Starts a run that the caller drives, and returns it undriven. As `start`. */
  open<P extends PackTypes = AnyPack>(
    pack: string | PackName<P>,
    options: NoInfer<StartOptions<P>> = {} as StartOptions<P>,
  ): Promise<Run<P>> {
    return this.#start(Execution.CALLER, pack, options);
  }

  /**
   * Starts a run and drives it until it ends or waits for an input from outside.
   *
   * `handler` executes each turn, or is a map from prompt to such a function, or a model of the
   * AI SDK: `client.run("my-pack", openai("gpt-5-mini"))`. `tools` are executed here; steps of others wait for a worker. A handler that throws fails
   * its turn, which is retried as the pack says, and is among the `errors` of the result.
   *
   * All runs that a client drives come over one work stream. When the sidecar is away they wait
   * for it. With `signal` a run is given up: its turns end, its tools are asked to stop by the
   * signals of their calls, and another `drive` goes on with it.
   *
   * `onOutput` gets every event of the run, in order: text as the handler writes it, calls of tools,
   * transitions, the end. It holds up nothing but itself. What is returned may be iterated over
   * instead: see `Driven`.
   *
   * Rejects with RUN_TAKEN_OVER when another process drives the run (with the same `requestId`),
   * with RUN_DRIVEN where this client does already, with a PawlError of kind "cancelled" after
   * `signal` or `close`; at once and without using up an attempt, with BAD_REPLY for a handler
   * that returns no Reply, NO_HANDLER for a prompt that the map has not, UNKNOWN_EVENT,
   * UNDECLARED_ARTIFACT or ARTIFACT_TYPE for a Reply that the state does not take, and a TypeError
   * for a handler or tool that is no function, and for a handler that takes more than a Turn.
   */
  run<P extends PackTypes = AnyPack, H extends Handlers<P> = Handlers<P>>(
    pack: string | PackName<P>,
    handler: H & ExactHandlers<H, P>,
    options: NoInfer<RunOptions<P>> = {} as RunOptions<P>,
  ): Driven<P> {
    const how = options as DriveOptions<P>;
    const begin = async () => {
      const run = await this.open<P>(pack, options);
      return startDrive(this.connection, run, handler as Handlers, how);
    };
    return driven(begin, how.onOutput);
  }

  /** A run by its id. Makes no call: an unknown id shows at the first one. */
  attach<P extends PackTypes = AnyPack>(runId: string): Run<P> {
    return new Run<P>(this.connection, runId);
  }

  /**
   * Stores large content and gives its reference, for an artifact or a tool's result. The
   * same bytes again are the same blob; an upload that was cut is gone on with. Reasons:
   * those of PutBlob, with the operator's limit in `limit`.
   */
  putBlob(
    content: string | Uint8Array,
    options: CallOptions & { readonly mediaType?: string } = {},
  ): Promise<BlobHead> {
    const data = typeof content === "string" ? new TextEncoder().encode(content) : content;
    return putBlob(this.connection, data, options);
  }

  /** Reads a blob whole and checks its digest. An unknown one is of kind "not_found". */
  getBlob(ref: string, options: CallOptions = {}): Promise<BlobContent> {
    return getBlob(this.connection, ref, options);
  }

  /**
   * Imports a run out of its file, to be read, compared and forked; it is never driven.
   * Reasons: EXPORT_INVALID, EXPORT_TRUNCATED, EXPORT_NEWER, RUN_EXISTS.
   */
  importRun(
    file: Uint8Array,
    options: CallOptions = {},
  ): Promise<{ readonly run: RunInfo; readonly duplicate: boolean }> {
    return importRun(this.connection, file, options);
  }

  /** A worker over this client's connection. */
  worker<P extends PackTypes = AnyPack>(options: WorkerOptions<P> = {}): Worker<P> {
    return new Worker<P>(this.connection, options);
  }

  async #start<P extends PackTypes>(
    execution: Execution,
    pack: string,
    options: StartOptions<P>,
  ): Promise<Run<P>> {
    const { namespace, runs } = this.connection;
    const request = {
      namespace,
      pack,
      entry: entryOf(options),
      variablesJson: options.variables ? toJsonText(options.variables, "variables") : "",
      input: partsOf(options.input),
      execution,
      labels: { ...options.labels },
      requestId: options.requestId ?? newId(),
      maxSteps: options.maxSteps ?? 0,
    };
    const started = await this.connection.call(
      StartRunResponseSchema,
      (rpc) => runs.startRun(request, rpc),
      options,
    );
    return this.attach<P>(started.run?.runId ?? "");
  }

  #document(document: string | Uint8Array, options: PackOptions) {
    return {
      namespace: this.connection.namespace,
      content: typeof document === "string" ? new TextEncoder().encode(document) : document,
      filename: options.filename ?? "",
      strictSchema: options.strictSchema ?? "",
    };
  }
}

function entryOf(options: { readonly agent?: string; readonly state?: string }) {
  if (options.agent !== undefined) {
    return { case: "agent" as const, value: options.agent };
  }
  return options.state === undefined
    ? { case: undefined }
    : { case: "state" as const, value: options.state };
}
