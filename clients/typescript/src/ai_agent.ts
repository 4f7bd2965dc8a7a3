/** Runs a program of the AI SDK as the only turn of a run. */

import { gateway, type LanguageModel, type ToolSet } from "ai";
import { CompletedRun, type Journal } from "./ai_journal.js";
import { type AnyModel, checkModel, ModelCalls } from "./ai_model.js";
import { type AgentPack, type AgentPackOptions, agentPack } from "./ai_pack.js";
import { recordableText } from "./ai_record.js";
import type { CallOptions } from "./ai_request.js";
import { currentCall, currentScope, Scope, within } from "./ai_scope.js";
import { ROOT, ToolBodies, ToolCalls } from "./ai_tools.js";
import type { PawlClient } from "./client.js";
import { failTurn, PawlError } from "./errors.js";
import { RunStatus } from "./gen/pawl/v1/record_pb.js";
import { faultOf, isMistake } from "./handler_fault.js";
import { toJsonText } from "./json_text.js";
import type { Json } from "./plain_message.js";
import type { Reply } from "./reply.js";
import type { Run } from "./run.js";
import type { RunResult } from "./run_result.js";
import type { Turn } from "./turn.js";
import { json } from "./values.js";

/** Options of `agent`. */
export interface AgentOptions<T extends ToolSet = ToolSet> extends AgentPackOptions<T> {
  /**
   * Names the run: the same id continues the run that it started, or returns its recorded result.
   * At most 128 bytes. Default in a durable tool: the key of its call; elsewhere a new run.
   */
  readonly requestId?: string;
  /** Labels by which lists find the run. Default: none. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Its abort abandons the run in this process; the same `requestId` continues it. */
  readonly signal?: AbortSignal;
}

/** What makes the calls of a program durable. */
export interface Durable<T extends ToolSet = ToolSet> {
  /** Id of the run. */
  readonly runId: string;
  /** The tools of `agent`, with calls that are recorded. Give them to `generateText` and others. */
  readonly tools: T;
  /** Aborted when this execution of the program is not needed any longer. */
  readonly signal: AbortSignal;
  /** Returns the model with calls that are recorded. */
  model<M extends AnyModel>(model: M): M;
  /** As above, for the name of a model, which the SDK's default provider knows. */
  model(model: string): Exclude<LanguageModel, string>;
}

/**
 * The value of a program. It resolves when the run has completed; for a result of `streamText` as
 * soon as the program has returned it, while the answer is still on its way.
 */
export type DurableAnswer<V> = Promise<V> & {
  /** Resolves when the run has ended; rejects as the value does. */
  readonly ended: Promise<RunResult>;
};

/**
 * Runs a program of the AI SDK durably, in this process. The program makes its model calls with
 * `durable.model(…)` and its tool calls with `durable.tools`; both are steps of a run under the
 * limits of `bounds`. After a crash of this process, the sidecar or both, the same program with the
 * same `requestId` receives the recorded answers and results and makes only the missing calls. Once
 * the run has completed, it calls nothing and returns the same value.
 *
 *     import { openai } from "@ai-sdk/openai";
 *     import { streamText } from "ai";
 *     import { PawlClient } from "pawl-client";
 *     import { agent } from "pawl-client/ai-sdk";
 *
 *     const client = new PawlClient();
 *     export async function POST(request: Request) {
 *       const { id, prompt } = await request.json();
 *       const answer = await agent(client, { name: "chat", requestId: id }, (durable) =>
 *         streamText({ model: durable.model(openai("gpt-5-mini")), prompt }),
 *       );
 *       return answer.toUIMessageStreamResponse();
 *     }
 *
 * An error of the program ends the run FAILED, and is thrown here. After a failure of a model that
 * may pass, the program is executed again from the record, as often as the pack's `retry` says.
 *
 * Rejects with a PawlError:
 * - RUN_CHANGED: the run began with other tools, which the message names, or with another program.
 * - ID_REUSED: the `requestId` started a run of something else.
 * - TOOL_NOT_ALLOWED: the operator does not allow a tool (`serve --allow-tool`). The run waits.
 * - RUN_ENDED: a limit, a person or an unknown outcome ended the run; `metadata` has its `status` and
 *   `reason`.
 * - those of `PawlClient.run`, for example RUN_TAKEN_OVER and RUN_DRIVEN.
 */
export function agent<V, const T extends ToolSet = ToolSet>(
  client: PawlClient,
  options: AgentOptions<T>,
  program: (durable: Durable<T>) => V | PromiseLike<V>,
): DurableAnswer<V> {
  const execution = new AgentRun<V, T>(client, options, program);
  const ended = execution.execute();
  ended.catch((error: unknown) => execution.refuse(error));
  return Object.assign(execution.value, { ended });
}

/** The run of a program, and its value. */
class AgentRun<V, T extends ToolSet> {
  /** Resolves with the value of the program. */
  readonly value: Promise<V>;
  readonly #client: PawlClient;
  readonly #options: AgentOptions<T>;
  readonly #program: (durable: Durable<T>) => V | PromiseLike<V>;
  readonly #bodies: ToolBodies;
  #resolve: (value: V) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  /** The value of the last execution. */
  #last: { readonly value: V } | undefined;
  /** The error of the last execution. */
  #error: { readonly error: unknown } | undefined;

  constructor(
    client: PawlClient,
    options: AgentOptions<T>,
    program: (durable: Durable<T>) => V | PromiseLike<V>,
  ) {
    this.#client = client;
    this.#options = options;
    this.#program = program;
    this.#bodies = new ToolBodies(options.tools ?? {});
    this.value = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.value.catch(() => undefined); // A program can wait for `ended` alone.
  }

  /** The run has no value. */
  refuse(error: unknown): void {
    this.#reject(error);
  }

  /** Executes the program until its run has ended. */
  async execute(): Promise<RunResult> {
    const { signal } = this.#options;
    const declared = await agentPack(this.#options);
    const run = await this.#begin(declared);
    const info = await run.info({ signal });
    if (info.status === RunStatus.COMPLETED) {
      const journal = await CompletedRun.of(run, signal);
      await this.#executed(journal, run.id, declared);
      return this.#valued(await run.result({ signal }));
    }
    if (isOver(info.status)) {
      throw endedError(run.id, info.status, info.reason);
    }
    const handler = async (turn: Turn): Promise<Reply> => this.#turn(turn, declared);
    const tools = this.#bodies.functions();
    const result = await run.drive(handler, { tools, signal });
    const { status, reason } = result;
    if (status !== RunStatus.COMPLETED) {
      // If a limit has ended the run, the error of the program only follows from that end.
      const own = status === RunStatus.FAILED || reason === "turn_failed";
      throw own && this.#error ? this.#error.error : endedError(run.id, status, reason);
    }
    return this.#valued(result);
  }

  #valued(result: RunResult): RunResult {
    if (this.#last) {
      this.#resolve(this.#last.value);
    }
    return result;
  }

  /** Starts the run, or finds the one that the request id started. */
  async #begin(declared: AgentPack): Promise<Run> {
    const { labels, signal } = this.#options;
    const requestId = this.#options.requestId ?? currentCall()?.idempotencyKey;
    const about = requestId === undefined ? {} : { requestId };
    const named = requestId === undefined ? labels : { ...labels, [LABEL]: requestId };
    const open = () => {
      return this.#client.open(declared.reference, { ...about, labels: named, signal });
    };
    try {
      return await open().catch(async (error: unknown) => {
        if (!PawlError.is(error, "PACK_NOT_FOUND")) {
          throw error;
        }
        await this.#client.registerPack(declared.pack.json(), { signal });
        return open();
      });
    } catch (error) {
      if (requestId === undefined || !PawlError.is(error, "ID_REUSED")) {
        throw error;
      }
      return this.#earlier(requestId, declared, error);
    }
  }

  /** Returns the run that began with another version of the pack, if its tools are the same. */
  async #earlier(requestId: string, { pack }: AgentPack, reused: PawlError): Promise<Run> {
    const { signal } = this.#options;
    const filter = { pack: pack.id, labels: { [LABEL]: requestId } };
    for await (const { runId, pack: began } of this.#client.listRuns(filter, { signal })) {
      const { content } = await this.#client.getPack(began?.digest ?? "", {
        includeContent: true,
        signal,
      });
      const changed = changedTools(JSON.parse(new TextDecoder().decode(content)), pack.document());
      if (changed.length > 0) {
        const text =
          `run ${runId} of ${requestId} began with other tools: ${changed.join(", ")}. Continue it ` +
          "with the tools with which it began, or give another requestId";
        const metadata = { tools: changed.join(", "), run_id: runId };
        throw new PawlError("state", text, { reason: "RUN_CHANGED", metadata });
      }
      return this.#client.attach(runId);
    }
    throw reused;
  }

  async #turn(turn: Turn, declared: AgentPack): Promise<Reply> {
    this.#error = undefined;
    try {
      const value = await this.#executed(turn, turn.runId, declared);
      return { output: await outputOf(value) };
    } catch (error) {
      if (turn.signal.aborted || isMistake(error)) {
        throw error;
      }
      this.#error = { error };
      const passing = PawlError.is(error) && error.kind === "step_failed" && error.retryable;
      const { code, message } = faultOf(error);
      throw failTurn(code, message, { retryable: passing && !isStream(this.#last?.value) });
    }
  }

  /** Executes the program. The value of a stream is passed on at once. */
  async #executed(journal: Journal, runId: string, declared: AgentPack): Promise<V> {
    const root = new Scope(ROOT);
    const models = new ModelCalls(journal);
    let mistake: { readonly error: unknown } | undefined;
    const calls = new ToolCalls(journal, models, this.#bodies, root, (error) => {
      mistake ??= { error };
    });
    const own = this.#options.tools ?? ({} as T);
    const durable: Durable<T> = {
      runId,
      signal: journal.signal,
      tools: calls.durable(own, declared.approved),
      model: (given: AnyModel | string) => {
        const model = typeof given === "string" ? modelNamed(given) : given;
        checkModel(model);
        const throwMistake = () => {
          if (mistake) {
            throw mistake.error;
          }
        };
        return durableModel(model, models, root, throwMistake) as never;
      },
    };
    const value = await within(root, async () => this.#program(durable));
    checkValue(value);
    this.#last = { value };
    if (isStream(value)) {
      this.#resolve(value);
      const reason = await value.finishReason;
      if (reason === "error") {
        throw models.failure ?? new PawlError("step_failed", "the stream ended with an error");
      }
    }
    if (mistake) {
      throw (mistake as { readonly error: unknown }).error;
    }
    return value;
  }
}

/** Label of a run with its request id, by which a changed program finds it. */
const LABEL = "ai_request";

function isOver(status: RunStatus): boolean {
  return ![RunStatus.RUNNING, RunStatus.WAITING].includes(status);
}

function endedError(runId: string, status: RunStatus, reason: string): PawlError {
  const text = `run ${runId} ended ${RunStatus[status]} (${reason}); give another requestId for a new run`;
  const metadata = { run_id: runId, status: RunStatus[status] ?? "", reason };
  return new PawlError("state", text, { reason: "RUN_ENDED", metadata });
}

interface PackTools {
  readonly tools?: { readonly [name: string]: { readonly parameters?: Json } };
}

/** Returns the names of tools that are missing, new, or have other parameters. */
function changedTools({ tools: before = {} }: PackTools, { tools: now = {} }: PackTools): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...names].filter((name) => {
    const [old, fresh] = [before[name]?.parameters, now[name]?.parameters];
    return recordableText(old ?? null) !== recordableText(fresh ?? null);
  });
}

/** Returns the model that the SDK's default provider has under a name. */
function modelNamed(name: string): AnyModel {
  const place = globalThis as { AI_SDK_DEFAULT_PROVIDER?: { languageModel(id: string): unknown } };
  const provider = place.AI_SDK_DEFAULT_PROVIDER ?? gateway;
  return provider.languageModel(name) as AnyModel;
}

/** Returns a model whose calls are recorded; `check` throws what must end the program. */
function durableModel(
  model: AnyModel,
  models: ModelCalls,
  root: Scope,
  check: () => void,
): AnyModel {
  const { specificationVersion, provider, modelId } = model;
  return {
    specificationVersion,
    provider,
    modelId,
    get supportedUrls() {
      return model.supportedUrls;
    },
    async doGenerate(options: CallOptions) {
      check();
      return models.generate(model, options, currentScope() ?? root);
    },
    async doStream(options: CallOptions) {
      check();
      return models.stream(model, options, currentScope() ?? root);
    },
  };
}

/** The used part of a result of `streamText`. */
interface StreamResult {
  readonly finishReason: PromiseLike<unknown>;
  readonly text?: PromiseLike<string>;
}

/** Whether a value is a result whose stream is still on its way. */
function isStream(value: unknown): value is StreamResult {
  const { finishReason } = Object(value ?? null) as { readonly finishReason?: unknown };
  return typeof (Object(finishReason ?? null) as { then?: unknown }).then === "function";
}

/** Throws a RangeError for a stream that was made of a result: its end is not known here. */
function checkValue(value: unknown): void {
  const kind = Object.prototype.toString.call(value);
  if (kind === "[object Response]" || kind === "[object ReadableStream]") {
    throw new RangeError(
      "agent: return the result of streamText itself, and make the response of it outside",
    );
  }
}

/** Returns the output of the turn: the text of a result, or the value if it is JSON. */
async function outputOf(value: unknown): Promise<Reply["output"]> {
  if (typeof value === "string") {
    return value;
  }
  const text = (Object(value ?? null) as { text?: unknown }).text;
  const words = isStream(value) ? await value.text : text;
  if (typeof words === "string") {
    return words;
  }
  try {
    toJsonText(value, "value");
    return json(value as Json);
  } catch {
    return undefined;
  }
}
