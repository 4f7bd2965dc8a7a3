/** The client for Node. */

import { type BlobContent, type BlobHead, getBlob, putBlob } from "./blobs.js";
import { brand } from "./brand.js";
import { BaseClient } from "./client_base.js";
import { type Driven, type DriveOptions, driven, type OnOutput, startDrive } from "./drive.js";
import { PawlError } from "./errors.js";
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
import type { AnyPack, Entry, NameOf, PackName, PackTypes } from "./types.js";
import { type Content, partsOf } from "./values.js";
import { Worker } from "./worker.js";
import type { WorkerOptions } from "./worker_options.js";

/**
 * Options of a start of a run.
 *
 *     await client.start("my-pack", { variables: { n: 3 }, input: "go", labels: { team: "a" } });
 */
export type StartOptions<P extends PackTypes = AnyPack> = Beginning & Entry<P>;

/** Options of `run`: those of `start`, and the tools that this process executes. */
export type RunOptions<P extends PackTypes = AnyPack> = StartOptions<P> & {
  readonly tools?: Tools<P>;
  /**
   * Tools that workers execute; "*": all without an entry in `tools`. Default: none. A handler that
   * calls another tool has a mistake, and NO_HANDLER is thrown at once.
   */
  readonly workerTools?: readonly (NameOf<P["tools"]> | "*")[];
  /**
   * Receives each event of the run in order. An error that it throws abandons the run and is thrown
   * here.
   */
  readonly onOutput?: OnOutput;
};

/** Selects the executor of a run that its caller does not drive. */
export interface Executed {
  /**
   * `Execution.SIDECAR`: the sidecar calls the models of its operator (`serve --model`), and
   * workers execute the tool calls. Default `Execution.WORKERS`: workers execute the turns as well.
   */
  readonly execution?: Execution.WORKERS | Execution.SIDECAR;
}

/**
 * Options that every start has, besides `variables` and either `agent`, the key of a member at
 * which the run enters, or `state`. A state other than the pack's entry needs the scope admin.
 */
export interface Beginning extends CallOptions {
  /** The first message. Default: none. */
  readonly input?: Content;
  /** Labels by which lists find the run. Default: none. */
  readonly labels?: Readonly<Record<string, string>>;
  /**
   * Idempotency id: a repeated call with the same id returns the run of the first call. Default: a
   * new id for each call, which its repetitions keep.
   */
  readonly requestId?: string;
  /** Lowers the pack's max_steps. Default 0: unchanged. */
  readonly maxSteps?: number;
  /**
   * A user talks with the run: after a transition it waits for an input in every state whose
   * `control` is not "agent". Default: false, it waits only where the pack says `control: user`.
   */
  readonly conversation?: boolean;
}

/** Options for reading a pack document, which is JSON or YAML. */
export interface PackOptions extends CallOptions {
  /** Its ending distinguishes JSON from YAML, and messages show it. Default: none. */
  readonly filename?: string;
  /** Checks against one published schema: "1.4.0" to "1.9.0". Default: the newest, with the keys of Pawl. */
  readonly strictSchema?: string;
}

/**
 * A client of one sidecar over gRPC. Concurrent calls may share it.
 *
 * Each writing call has an idempotency id, which its repetitions keep, so it takes effect once,
 * even if the sidecar is killed during the call. Errors: see PawlError. Declare it with `using`, or
 * call `close`.
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
  /** Connections of the stream of driven runs. */
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
   * Closes the connection. Open calls and driven runs end with a PawlError of kind "cancelled";
   * another process, or a later `drive`, continues those runs. The signals of running tools of
   * driven runs are aborted. One stream, and with it the process, then stays for up to 5 s to
   * report the results of these tools. The outcome of a tool that takes longer is unknown.
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

  /** Checks a pack document and stores nothing. Findings are part of the report, not an error. */
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
   * Checks a pack document and stores it. The same bytes again return the same pack. Reasons:
   * PACK_INVALID, PACK_VERSION_TAKEN.
   */
  registerPack(
    document: string | Uint8Array,
    options: PackOptions & {
      /** True means that runs that name the pack without a version use this one. Default true. */
      readonly makeDefault?: boolean;
      /** True means that an id@version that names other bytes then names these. Default false. */
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
   * Starts a run whose turns workers or the sidecar execute. `pack` is "id", "id@version" or a
   * digest. Reasons: PACK_NOT_FOUND, NO_SUCH_ENTRY, BAD_VARIABLES, BAD_LABEL, NO_MODELS,
   * NO_SUCH_MODEL. Throws a RangeError for another `execution`; `open` and `run` start runs that
   * the caller executes.
   */
  start<P extends PackTypes = AnyPack>(
    pack: string | PackName<P>,
    options: NoInfer<StartOptions<P>> & Executed = {} as StartOptions<P> & Executed,
  ): Promise<Run<P>> {
    const { execution = Execution.WORKERS } = options;
    if (execution !== Execution.WORKERS && execution !== Execution.SIDECAR) {
      const text = "execution: must be Execution.WORKERS or Execution.SIDECAR";
      throw new RangeError(
        `${text}, not ${Execution[execution] ?? execution}; open and run start runs that the caller executes`,
      );
    }
    return this.#start(execution, pack, options);
  }

  /**
   * Starts a run that the caller drives, and returns it before its first turn is executed.
   * Arguments and reasons are those of `start`.
   */
  open<P extends PackTypes = AnyPack>(
    pack: string | PackName<P>,
    options: NoInfer<StartOptions<P>> = {} as StartOptions<P>,
  ): Promise<Run<P>> {
    return this.#start(Execution.CALLER, pack, options);
  }

  /**
   * Starts a run and executes its turns until it ends or waits for an outside input.
   *
   * `handler` executes each turn. It is a function, a map from prompt ids to functions, or a model
   * of the AI SDK: `client.run("my-pack", openai("gpt-5-mini"))`. This process executes `tools`;
   * steps of `workerTools` wait for a worker. A handler that throws fails its turn, which is retried
   * as the pack says, and its error is part of `errors` of the result.
   *
   * All runs that a client drives share one work stream. While the sidecar is away, they wait for
   * it. An abort of `signal` abandons the run: its turns end, the signals of its tool calls are
   * aborted, and another `drive` continues the run.
   *
   * `onOutput` receives each event of the run in order: text as the handler writes it, tool calls,
   * transitions, the end. It delays only itself. In its place, the return value can be iterated
   * over: see `Driven`.
   *
   * Rejects with these errors:
   * - RUN_TAKEN_OVER: another process drives the run, for example one with the same `requestId`.
   * - RUN_DRIVEN: this client drives the run already.
   * - a PawlError of kind "cancelled", after `signal` or `close`.
   * - a mistake in the program, at once; the attempt is not used up. BAD_REPLY: a handler returned
   *   no valid Reply. NO_HANDLER: a prompt has no handler, or a handler called a tool that is
   *   neither in `tools` nor in `workerTools`. UNKNOWN_EVENT, UNDECLARED_ARTIFACT, ARTIFACT_TYPE:
   *   the reply has an event or artifact that the state does not declare, or an artifact of another
   *   type. INVALID_JSON: a value of the reply is no JSON. TOOL_NOT_ALLOWED, TOOL_NOT_LISTED,
   *   TOOL_BLOCKED: the handler did not catch the refusal of a call. MODEL_UNPRICED: a model has no
   *   price, and the cost is limited.
   * - INVALID_ARGUMENTS: the run failed because a tool's function does not accept the payload of a
   *   handler.
   * - RESULT_INVALID: the run or a turn failed because a tool's result is no JSON, or has another
   *   type than declared. The tool was called.
   * - a TypeError: a handler or tool is no function, or a handler requires more than a Turn.
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

  /**
   * Returns a run by its id. It makes no call: an unknown id fails at the first call of the run.
   */
  attach<P extends PackTypes = AnyPack>(runId: string): Run<P> {
    return new Run<P>(this.connection, runId);
  }

  /**
   * Stores large content and returns its reference, which an artifact or a tool's result then
   * holds. The same bytes again are the same blob. An upload that loses its connection continues
   * from the server's position. Reasons: those of PutBlob, with the operator's limit in `limit`.
   */
  putBlob(
    content: string | Uint8Array,
    options: CallOptions & { readonly mediaType?: string } = {},
  ): Promise<BlobHead> {
    const data = typeof content === "string" ? new TextEncoder().encode(content) : content;
    return putBlob(this.connection, data, options);
  }

  /**
   * Reads a whole blob and checks its digest. The error of an unknown one has the kind "not_found".
   */
  getBlob(ref: string, options: CallOptions = {}): Promise<BlobContent> {
    return getBlob(this.connection, ref, options);
  }

  /**
   * Stores a run from a file of `Run.exportFile`, to read, compare and fork it; it cannot be
   * driven. Reasons: EXPORT_INVALID, EXPORT_TRUNCATED, EXPORT_NEWER, RUN_EXISTS.
   */
  importRun(
    file: Uint8Array,
    options: CallOptions = {},
  ): Promise<{ readonly run: RunInfo; readonly duplicate: boolean }> {
    return importRun(this.connection, file, options);
  }

  /** Creates a worker that uses this client's connection. */
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
      conversation: options.conversation ?? false,
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
      content: contentOf(document),
      filename: options.filename ?? "",
      strictSchema: options.strictSchema ?? "",
    };
  }
}

/**
 * The path of a pack's file. No pack has this form: YAML on one line has a colon or a brace.
 */
const PATH = /^(?!.*: )[^\n{]*\.(?:json|ya?ml)$/i;

function contentOf(document: string | Uint8Array): Uint8Array {
  if (typeof document !== "string") {
    return document;
  }
  if (PATH.test(document)) {
    const text = `document: "${document}" is a path, not a pack; pass await readFile("${document}") of node:fs/promises`;
    throw new PawlError("request", text, { reason: "PACK_INVALID" });
  }
  return new TextEncoder().encode(document);
}

function entryOf(options: { readonly agent?: string; readonly state?: string }) {
  if (options.agent !== undefined) {
    return { case: "agent" as const, value: options.agent };
  }
  return options.state === undefined
    ? { case: undefined }
    : { case: "state" as const, value: options.state };
}
