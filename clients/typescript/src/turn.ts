/** The turn, as its handler sees it. */

import { brand } from "./brand.js";
import { PawlError } from "./errors.js";
import { StepStatus } from "./gen/pawl/v1/record_pb.js";
import type {
  AnswerModelResponse,
  GetTurnResponse,
  StepOutcome,
  Step as WireStep,
} from "./gen/pawl/v1/run_pb.js";
import type { ModelAsk, ModelReport, ModelRound, ToolCallRef } from "./model_step.js";
import { milliseconds } from "./option_limits.js";
import type { ArtifactData, Json, Plain } from "./plain_message.js";
import type { Reply } from "./reply.js";
import { checkSchema } from "./schema.js";
import type { OutputPiece } from "./turn_requests.js";
import type { AnyTurn, StepCalls, TurnTypes, Values, Writes } from "./types.js";
import type { Artifacts } from "./values.js";

/** The open turn, ready to be executed. */
export type TurnInfo = Plain<GetTurnResponse>;

/** A tool call of a turn. */
export type Step = Plain<WireStep>;

/**
 * Executes one turn. An error that it throws fails the turn, which is retried as the pack says.
 *
 *     const handler: pawl.Handler = (turn) => (turn.terminal ? {} : { event: "Success" });
 */
export type Handler<T extends TurnTypes = AnyTurn> = (
  turn: Turn<T>,
) => Promise<Reply<T> | undefined> | Reply<T> | undefined;

// biome-ignore-start lint/suspicious/noExplicitAny: it fits the types of every pack.
/** A handler for turns of any pack; the types of its replies are not checked by the compiler. */
export type UntypedHandler = (turn: Turn<any>) => Promise<Reply<any>>;
// biome-ignore-end lint/suspicious/noExplicitAny: as above.

/** A request for a tool call of a turn. */
export interface StepCall {
  readonly tool: string;
  /** The tool's arguments. Default {}. */
  readonly payload?: Json;
  /** Unique in the visit. Default: the ordinal of the call in this execution. */
  readonly key?: string;
  /** True means that the call counts against max_reframes. Default false. */
  readonly reframe?: boolean;
  /**
   * The model's call that the step makes; its key is made from the MODEL step and the index.
   * Default: none.
   */
  readonly call?: ToolCallRef;
  /**
   * True: the caller makes the call itself, and no worker receives it, if `byCaller` of the
   * answer's step is set as well. Only for calls that `requestSteps` requests. Default false.
   */
  readonly byCaller?: boolean;
}

/** Options of a tool call. */
export interface StepOptions {
  readonly key?: string;
  readonly reframe?: boolean;
  /** Longest wait for the answer in milliseconds; at least 1. Default: the step's own deadline. */
  readonly timeoutMs?: number;
}

/** The holder of a turn's lease, which makes the calls of a handler. */
export interface TurnHost {
  /** Requests tool calls, in one commit. */
  request(calls: readonly StepCall[]): Promise<readonly Plain<StepOutcome>[]>;
  /** Sees each call of a tool that the handler makes, and the promise that the handler receives. */
  called?(tool: string, answer: Promise<unknown>): void;
  /** Waits for the answer of a step. */
  settle(step: Step, timeoutMs: number | undefined): Promise<Step>;
  /** Requests a model call. */
  requestModel(ask: ModelAsk): Promise<ModelRound>;
  /** Reports the outcome of a model call. */
  answerModel(report: ModelReport): Promise<Plain<AnswerModelResponse>>;
  /** Stores the provider's id of a response that is under way. */
  updateModelCall(step: number, attempt: number, responseId: string): Promise<void>;
  /** Reads the values of the run's artifacts. */
  artifacts(): Promise<Readonly<{ [name: string]: ArtifactData }>>;
  /** Writes artifacts; they are durable when the promise resolves. */
  setArtifacts(artifacts: Artifacts): Promise<void>;
  /** Shows a piece of output to the run's readers. */
  output(text: string): Promise<void>;
  /** Shows a piece of the model's reasoning to the run's readers. */
  reasoning(text: string): Promise<void>;
  /** Takes back the last bytes of the shown output. */
  retractOutput(bytes: number): Promise<void>;
  /** Stores a piece of output as a record; it is durable when the promise resolves. */
  writeOutput(piece: OutputPiece): Promise<void>;
}

/**
 * One turn, as its handler sees it.
 *
 *     worker.prompt("coder", async (turn) => {
 *       await turn.output("testing ...");
 *       const report = await turn.step<{ passed: boolean }>("run_tests", { path: "." });
 *       return { event: report.passed ? "Passed" : "Failed", artifacts: { report } };
 *     });
 */
export class Turn<T extends TurnTypes = AnyTurn> {
  static {
    brand(Turn, "Turn");
  }

  readonly #host: TurnHost;
  /** All fields of the turn. */
  readonly info: TurnInfo;
  /** Key of the member that a run of an agent executes; empty for other runs. */
  readonly agent: string;
  /** Labels of the run. */
  readonly labels: Readonly<Record<string, string>>;
  readonly #wanted: { readonly signal: AbortSignal };
  #requested = 0;
  /** A piece of `output` was stored as a record. */
  #written = false;

  constructor(
    host: TurnHost,
    info: TurnInfo,
    wanted: { readonly signal: AbortSignal },
    about: { agent?: string; labels?: Readonly<Record<string, string>> } = {},
  ) {
    this.#host = host;
    this.info = info;
    this.#wanted = wanted;
    this.agent = about.agent ?? "";
    this.labels = about.labels ?? {};
  }

  /** Aborted when the turn's result is not needed any longer; the handler should stop then. */
  get signal(): AbortSignal {
    return this.#wanted.signal;
  }
  /** Id of the run. */
  get runId(): string {
    return this.info.turn?.runId ?? "";
  }
  /** The visited state. */
  get state(): string {
    return this.info.turn?.state ?? "";
  }
  /** Number of this visit of the state, from 1. */
  get visit(): number {
    return this.info.turn?.visit ?? 0;
  }
  /** Execution attempt, from 1; only failed executions raise it. */
  get attempt(): number {
    return this.info.turn?.attempt ?? 0;
  }
  /** Key of the prompt. */
  get prompt(): string {
    return this.info.prompt;
  }
  /** The prompt's template, rendered. */
  get systemPrompt(): string {
    return this.info.systemPrompt;
  }
  /** Conversation that the turn sees, oldest first. */
  get messages(): TurnInfo["messages"] {
    return this.info.messages;
  }
  /** Tools that the prompt lists. */
  get tools(): TurnInfo["tools"] {
    return this.info.tools;
  }
  /** The events that move the run from this state. */
  get allowedEvents(): readonly string[] {
    return this.info.allowedEvents;
  }
  /** Steps of this visit so far, with their answers. */
  get steps(): readonly Step[] {
    return this.info.steps;
  }
  /** Artifacts that the state declares. */
  get artifactSlots(): TurnInfo["artifactSlots"] {
    return this.info.artifactSlots;
  }
  /** The run's variables, defaults applied. */
  get variables(): T["variables"] {
    return this.info.variables;
  }
  /** Settings that the pack has for the executor: parameters, validators, ... */
  get settings(): Json | undefined {
    return this.info.settings;
  }
  /** True means that completing this turn ends the run. */
  get terminal(): boolean {
    return this.info.terminal;
  }

  /**
   * Makes a durable tool call through the sidecar and returns its result.
   *
   * The call is recorded before it is made. If the turn is executed again, the same key returns the
   * recorded answer, and no tool runs twice. The default key is the ordinal of the call in this
   * execution, so a handler must make its calls in the same order each time, or give them keys.
   * A second call of the same tool in one execution is therefore a new step, unless both have the
   * same key: then it returns the recorded answer.
   *
   * `Result` is the type of the tool's result, as JSON has it. Nothing checks it at run time.
   *
   * Throws a PawlError of kind schema (payload), step_refused (a policy or a limit), step_denied (a
   * person), step_failed, step_cancelled or deadline, or with the reason STEP_MISMATCH. A call that
   * is not awaited ends with the handler, which the log reports, and its error is ignored.
   */
  step<Result extends Json = Json>(...call: StepCalls<T, StepOptions>): Promise<Result> {
    const [tool, payload = {}, options = {}] = call as readonly unknown[] as [
      string,
      Json?,
      StepOptions?,
    ];
    return this.#called(tool, this.#step(tool, payload, options)) as Promise<Result>;
  }

  async #step(tool: string, payload: Json, options: StepOptions): Promise<Json | undefined> {
    if (options.timeoutMs !== undefined) {
      milliseconds("timeoutMs", options.timeoutMs, 1);
    }
    this.checkPayload(tool, payload);
    const { key, reframe = false } = options;
    const request = this.#keyed({ tool, payload, key, reframe });
    const [outcome] = await this.#host.request([request]);
    const refused = outcome && deniedBy(outcome);
    if (refused) {
      throw refused;
    }
    return resultOf(await this.#answer(outcome, options.timeoutMs));
  }

  /** Returns the promise of a call. A handler that does not await it must not end the process. */
  #called<Answer>(tool: string, answer: Promise<Answer>): Promise<Answer> {
    answer.catch(() => undefined);
    this.#host.called?.(tool, answer);
    return answer;
  }

  /**
   * Makes several durable tool calls at the same time, up to the run's limit of pending calls, and
   * returns the outcome of each in order: its answered step, or its denial. Use it for calls that a
   * model requested (`StepCall.call`). The error of a tool is part of its step.
   */
  calls(calls: readonly StepCall[]): Promise<readonly Plain<StepOutcome>[]> {
    return this.#called(calls.map(({ tool }) => tool).join(", "), this.#calls(calls));
  }

  async #calls(calls: readonly StepCall[]): Promise<readonly Plain<StepOutcome>[]> {
    const done: Plain<StepOutcome>[] = [];
    const keyed = calls.map((call) => this.#keyed(call));
    let most = calls.length;
    while (done.length < calls.length) {
      const batch = keyed.slice(done.length, done.length + most);
      try {
        done.push(...(await this.#together(batch)));
      } catch (error) {
        most = fewer(batch.length, error);
      }
    }
    return done;
  }

  /**
   * As `calls`, but requests all calls at once, and returns a promise for each, which resolves as
   * soon as its call is answered. More calls than the run's limit of pending calls are refused.
   */
  callEach(calls: readonly StepCall[]): readonly Promise<Plain<StepOutcome>>[] {
    const keyed = calls.map((call) => this.#keyed(call));
    const requested = this.#host.request(keyed);
    return keyed.map((call, index) => {
      const whole = async () => this.#whole((await requested)[index], call);
      return this.#called(call.tool, whole());
    });
  }

  /**
   * Requests a model call, which the handler makes itself. `round` numbers the rounds of this
   * execution, from 1. A round that was answered before returns its recorded answer.
   */
  requestModel(ask: ModelAsk): Promise<ModelRound> {
    return this.#host.requestModel(ask);
  }

  /** Reports the outcome and the consumption of a model call. */
  answerModel(reported: ModelReport): Promise<Plain<AnswerModelResponse>> {
    return this.#host.answerModel(reported);
  }

  /** Stores the provider's id of a response that is under way. */
  updateModelCall(step: number, attempt: number, responseId: string): Promise<void> {
    return this.#host.updateModelCall(step, attempt, responseId);
  }

  /**
   * Returns the values of the run's artifacts by name, those of this turn included; one that was
   * never written is missing. Each call reads the run. The error of a worker without the scope
   * runs:read has the kind "permission".
   */
  async artifacts(): Promise<Values<T["artifacts"]>> {
    return (await this.#host.artifacts()) as Values<T["artifacts"]>;
  }

  /** Writes artifacts during the turn; they are durable when the promise resolves. */
  setArtifacts(artifacts: Writes<T["artifacts"]>): Promise<void> {
    return this.#host.setArtifacts(artifacts as Artifacts);
  }

  /**
   * Shows a piece of output to the run's readers. It is not recorded: the final output is that of
   * the reply.
   *
   * `durable` (default false): the piece is recorded as well. Senders of A2A messages see it at
   * once as a further part of the artifact `output` of their task, which the reply's output
   * replaces at the end. Each such call is one commit: use it for sentences, not for tokens.
   */
  async output(text: string, options: { readonly durable?: boolean } = {}): Promise<void> {
    if (options.durable) {
      const append = this.#written;
      this.#written = true;
      await this.writeOutput({ id: "output", parts: text, append });
    }
    await this.#host.output(text);
  }

  /**
   * Shows a piece of the model's reasoning to the run's readers, in order with `output` and marked
   * as reasoning. It is not part of the turn's output and not recorded.
   */
  reasoning(text: string): Promise<void> {
    return this.#host.reasoning(text);
  }

  /**
   * Takes back the last bytes (UTF-8) that `output` and `reasoning` showed, in whole pieces.
   * Readers discard the turn's output and receive the rest again.
   */
  retractOutput(bytes: number): Promise<void> {
    return this.#host.retractOutput(bytes);
  }

  /**
   * Stores a piece of output as a record; it is durable when the promise resolves. Senders of A2A
   * messages see it at once, as part of the artifact `piece.id` of their task. A turn that is
   * executed again begins by replacing what it wrote (`append` is false by default).
   */
  writeOutput(piece: OutputPiece): Promise<void> {
    return this.#host.writeOutput(piece);
  }

  /**
   * Returns the call with its key, which it has before its first request and keeps in each
   * repetition. Otherwise the calls after it would have other keys in the next execution.
   */
  #keyed<Call extends StepCall>(call: Call): Call {
    if (call.call) {
      return call;
    }
    this.#requested += 1;
    return { ...call, key: call.key || defaultKey(this.info, this.#requested) };
  }

  async #together(batch: readonly StepCall[]): Promise<Plain<StepOutcome>[]> {
    const outcomes = await this.#host.request(batch);
    return Promise.all(outcomes.map((outcome, index) => this.#whole(outcome, batch[index])));
  }

  /** Returns an outcome with its answered step. */
  async #whole(
    outcome: Plain<StepOutcome> | undefined,
    call: StepCall | undefined,
  ): Promise<Plain<StepOutcome>> {
    if (!call || !outcome) {
      const text = "the answer has another number of outcomes than of step requests";
      throw new PawlError("server", text);
    }
    // One answer has a limited size; a step that did not fit is requested alone.
    const whole = outcome.step?.bodiesOmitted ? await this.#isolated(call) : outcome;
    return whole.denial ? whole : { ...whole, step: await this.#answer(whole) };
  }

  async #isolated(call: StepCall): Promise<Plain<StepOutcome>> {
    const [outcome] = await this.#host.request([call]);
    if (!outcome) {
      throw new PawlError("server", "the answer has no outcome for a step request");
    }
    return outcome;
  }

  async #answer(outcome: Plain<StepOutcome> | undefined, timeoutMs?: number): Promise<Step> {
    if (!outcome?.step) {
      throw new PawlError("server", "the answer has no outcome for a step request");
    }
    const { step } = outcome;
    return step.status === StepStatus.PENDING ? this.#host.settle(step, timeoutMs) : step;
  }

  /**
   * Throws a PawlError of kind "schema" (SCHEMA, with the tool in its metadata) if the payload does
   * not fit the tool's schema.
   */
  checkPayload(tool: string, payload: Json): void {
    const spec = this.tools.find((candidate) => candidate.name === tool);
    if (spec?.parameters !== undefined) {
      checkSchema(payload, spec.parameters, `payload of tool ${tool}`, { tool });
    }
  }
}

/**
 * Returns the key of the turn's n-th call, from 1, as the server would make it. This client makes
 * it, so that the key does not depend on the memory of a server that was restarted.
 */
function defaultKey(info: TurnInfo, ordinal: number): string {
  const first = info.turn?.turnSeq === info.visitSeq;
  return first ? String(ordinal) : `${info.turn?.turnSeq}.${ordinal}`;
}

/**
 * Returns how many calls to request at once after the given number exceeded the limit of pending
 * calls. Throws any other error.
 */
function fewer(size: number, error: unknown): number {
  if (!PawlError.is(error, "MAX_PENDING_STEPS") || size === 1) {
    throw error;
  }
  return Math.max(1, Math.min(error.limit ?? 1, size - 1));
}

/** Returns the error of a denied call; undefined if it was not denied. */
export function deniedBy(outcome: Plain<StepOutcome>): PawlError | undefined {
  if (!outcome.denial) {
    return undefined;
  }
  const { code, message } = outcome.denial;
  const text = `step ${JSON.stringify(outcome.key)} was refused: ${code}: ${message}`;
  return new PawlError("step_refused", text, { reason: code, retryable: false });
}

/** Returns the result of an answered step. Throws if the step failed or was cancelled. */
export function resultOf(step: Step): Json | undefined {
  if (step.status === StepStatus.OK) {
    return step.result;
  }
  if (step.status === StepStatus.ERROR) {
    const code = step.error?.code ?? "ERROR";
    // A tool of the pack can use the same code; then the step was never held.
    const kind = code === "DENIED" && step.approval ? "step_denied" : "step_failed";
    const text = `tool ${step.tool}: ${code}: ${step.error?.message ?? ""}`;
    throw new PawlError(kind, step.unknown ? `${text}; the call may have happened` : text, {
      reason: code,
      unknown: step.unknown,
      // Another attempt of the turn would read the same answer.
      retryable: false,
    });
  }
  throw new PawlError(
    "step_cancelled",
    `step ${step.step} (${step.tool}) was cancelled: the visit was left`,
  );
}
