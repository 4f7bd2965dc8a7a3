/**
 * Executes turns by a model, and records each of its answers. Models are those of the AI SDK's
 * providers, of `ai` 6 and 7: install the one of your endpoint (`npm install @ai-sdk/openai`).
 *
 *     import { openai } from "@ai-sdk/openai";
 *     import { PawlClient } from "pawl-client";
 *     import { modelHandler } from "pawl-client/models";
 *
 *     using client = new PawlClient();
 *     const handler = modelHandler(openai("gpt-5-mini"));
 *     await client.run("my-pack", handler, { tools: { run_tests: () => ({ passed: true }) } });
 */

import { type Mended, mended, NO_ID, UNSAID } from "./endpoint_fetch.js";
import { failTurn, PawlError } from "./errors.js";
import { parseExact } from "./exact_json.js";
import { PartSchema, StepStatus } from "./gen/pawl/v1/record_pb.js";
import { Disposition } from "./gen/pawl/v1/run_pb.js";
import { isModel, type LanguageModel, type StreamPart } from "./language_model.js";
import { type Log, STDERR } from "./log.js";
import {
  brokenBy,
  discreet,
  type Failed,
  failureOf,
  headersOf,
  isFinal,
  refusalOf,
  tooLarge,
  unusable,
} from "./model_fault.js";
import { type IncludedMessages, type Manner, Talk } from "./model_loop.js";
import type { Values } from "./model_prompt.js";
import type {
  ModelAnswer,
  ModelFailure,
  ModelOutcome,
  ModelRound,
  ProviderLimits,
} from "./model_step.js";
import { Draft, type Piece } from "./model_stream.js";
import { normalizeAnswer } from "./normalize_answer.js";
import { outputsOf, type ValueOf } from "./output_schema.js";
import { type Json, plain } from "./plain_message.js";
import { envelope, KNOWN, Prompter, parameterOf } from "./prompt.js";
import { limitsIn } from "./provider_limits.js";
import type { Reply, Usage } from "./reply.js";
import { sleep } from "./retry.js";
import { deadlineAfter } from "./timer.js";
import type { Step, Turn, UntypedHandler } from "./turn.js";
import { type Part, partsOf, textOf } from "./values.js";

export type { LanguageModel } from "./language_model.js";

/** Options of a handler that calls a model. `O` is the type of `output`. */
export interface ModelOptions<O = unknown> {
  /**
   * Name of the model in the pack and the records: `model_overrides`, `x_pawl.prices`. Default: the
   * name in `model`, its `modelId`.
   */
  readonly name?: string;
  /**
   * Most answers of the model in one turn, not counting one more that must leave the state. Default
   * 16, at least 1; the pack's tool_policy.max_rounds may lower it.
   */
  readonly maxRounds?: number;
  /**
   * True: text that does not leave the state is an answer to the person, and the run waits for the
   * next input; the model can also ask a question. Default: true in states of the orchestration
   * hybrid or external.
   */
  readonly chat?: boolean;
  /**
   * Settings of the call in addition to those of the pack, by the names of the AI SDK: `{
   * temperature: 0, providerOptions: { openai: { reasoningEffort: "low" } } }`. They are recorded
   * with the parameters. Default: none.
   */
  readonly settings?: Values;
  /**
   * Schema of the answer's value: of zod or another library with Standard JSON Schema, a JSON
   * Schema, or one of them for each prompt by its id. The turn's output is then the value as JSON.
   * In states that the model leaves, its function has the value as the required `output`; in other
   * states the provider is asked for JSON that fits. If a value does not fit, the model receives
   * the reason and is asked again. Default: the answer is text.
   */
  readonly output?: O;
  /**
   * Receives warnings about recorded messages that this library cannot read. Default: standard
   * error.
   */
  readonly log?: Log;
}

const MAX_ROUNDS = 16;

/** A turn handler that calls a model. */
export type ModelHandler<T = Json> = UntypedHandler & {
  /**
   * Returns the value in the output of a run, as its schema converted it and as JSON keeps it.
   * Throws a PawlError (NO_VALUE) if the output has none.
   */
  value(result: { readonly output: readonly Part[] }): T;
};

/**
 * Returns a turn handler that calls a model. The provider's package reads the endpoint and its key.
 * The sidecar bounds and repeats the calls of a round; the SDK repeats nothing.
 * docs/guides/models.md lists the codes of failures. Throws a RangeError for invalid options.
 *
 *     const order = modelHandler(openai("gpt-5-mini"), { output: z.object({ count: z.int() }) });
 *     const result = await client.run("my-pack", order, { input: "Three tulips." });
 *     console.log(order.value(result).count);
 */
export function modelHandler<O = undefined>(
  model: LanguageModel,
  options: ModelOptions<O> = {},
): ModelHandler<ValueOf<O>> {
  const { name = model?.modelId, maxRounds = MAX_ROUNDS, chat, settings = {}, output } = options;
  const { log = STDERR } = options;
  if (!isModel(model)) {
    throw new RangeError('model: a model of the AI SDK, as openai("gpt-5-mini") is one');
  }
  if (!KNOWN.includes(model.specificationVersion)) {
    const known = KNOWN.join(" or ");
    throw new RangeError(
      `model: its specificationVersion must be one of ${known} (ai 6, 7), not ${model.specificationVersion}`,
    );
  }
  if (!name) {
    throw new RangeError("name: must not be empty");
  }
  if (!Number.isInteger(maxRounds) || maxRounds < 1) {
    throw new RangeError(`maxRounds: must be a whole number of at least 1, not ${maxRounds}`);
  }
  const taken = Object.keys(settings).find((setting) => OWN.includes(setting));
  if (taken !== undefined) {
    throw new RangeError(`settings.${taken}: the handler sets it itself; remove it from settings`);
  }
  const manner = { model: name, maxRounds, chat, settings, output: outputsOf(output) };
  const strange = warning(log, model);
  const handler: UntypedHandler = async (turn) => {
    return new Execution(turn, model, manner, strange).reply();
  };
  return Object.assign(handler, { value: valueIn as (result: Outcome) => ValueOf<O> });
}

type Outcome = { readonly output: readonly Part[] };

function valueIn({ output }: Outcome): unknown {
  const part = output.find(({ content }) => content.case === "json");
  if (part?.content.case !== "json") {
    throw new PawlError(
      "state",
      "the output has no JSON part; check that the run has completed a turn with a value",
      { reason: "NO_VALUE" },
    );
  }
  return parseExact(part.content.value);
}

/** Returns a function that warns once of each library whose messages this package cannot read. */
function warning(log: Log, { specificationVersion }: LanguageModel): (library: string) => void {
  const known = new Set<string>();
  return (library) => {
    if (!known.has(library)) {
      known.add(library);
      log.warn(
        `messages that ${library} recorded are rebuilt for the model from their text and calls: ` +
          `this package reads those of ai ${specificationVersion}`,
      );
    }
  };
}

/** Options of a call that `settings` must not have: the handler sets them, or they contain keys. */
const OWN = [
  "prompt",
  "tools",
  "toolChoice",
  "responseFormat",
  "abortSignal",
  "headers",
  "includeRawChunks",
];

/** The outcome of a model call, and its consumption. */
interface Came {
  readonly outcome: ModelOutcome;
  readonly usage: Usage;
  readonly limits: ProviderLimits | undefined;
}

/** A MODEL step that has no answer yet. */
interface Open {
  readonly step: Step;
  readonly maxBytes: number;
}

/**
 * The step of a request that was just made; `grown`: it has messages that no model has received
 * yet.
 */
interface RoundRequest extends Open {
  readonly grown: boolean;
}

/** The execution of one turn. */
class Execution {
  readonly #turn: Turn;
  readonly #model: LanguageModel;
  readonly #talk: Talk;
  readonly #shown: Shown;
  /** Records that the conversation contains because a request had to include them. */
  readonly #included = new Set<number>();
  readonly #strange: (library: string) => void;

  constructor(
    turn: Turn,
    model: LanguageModel,
    manner: Manner,
    strange: (library: string) => void,
  ) {
    this.#turn = turn;
    this.#model = model;
    this.#strange = strange;
    this.#talk = new Talk(turn, manner);
    this.#shown = new Shown(turn);
  }

  async reply(): Promise<Reply> {
    const talk = this.#talk;
    while (!talk.reply) {
      const included = await this.#round();
      this.#shown.settle();
      const calls = await talk.onAnswer(included);
      if (calls.length > 0) {
        talk.answered(calls, await this.#turn.calls(calls));
      }
    }
    return talk.reply;
  }

  /** Gets the answer of the next round: from the record, or else from the model. */
  async #round(): Promise<IncludedMessages> {
    const ask = { request: this.#talk.request(), round: this.#talk.round };
    const request = { ...ask, bound: this.#talk.bound() };
    const retry = async () => {
      const prompt = await this.#turn.requestModel(request);
      return { ...openOf(prompt), grown: this.#includeMessages(prompt) };
    };
    const open = await retry();
    const recorded = recordedOf(open);
    if (recorded) {
      await this.#shown.add({ text: textOf(recorded.parts) });
      return recorded;
    }
    return this.#answer(open, retry);
  }

  /** Takes the messages that the sidecar added to the request; true: some are new. */
  #includeMessages({ includedMessages }: ModelRound): boolean {
    const fresh = includedMessages.filter(({ seq }) => !this.#included.has(seq));
    for (const { seq } of fresh) {
      this.#included.add(seq);
    }
    this.#talk.include(fresh);
    return fresh.length > 0;
  }

  /** Makes the call until it is answered, or its attempts are used up. */
  async #answer(open: Open, repeated: () => Promise<RoundRequest>): Promise<IncludedMessages> {
    await this.#until(open.step.model?.notBefore);
    const { deadline } = open.step;
    const allowedMs = deadline && allowedBy(deadline.getTime() - Date.now());
    for (let { attempt } = open.step; ; ) {
      const came = await this.#call(open, allowedMs);
      const messages = await this.#report(open, attempt, came, repeated);
      if (typeof messages !== "number") {
        return messages;
      }
      attempt = messages;
      await this.#shown.reset();
    }
  }

  /** Makes the call once, and shows the text as it arrives. */
  async #call(open: Open, allowedMs: number | undefined): Promise<Came> {
    const { signal } = this.#turn;
    const limit = allowedMs === undefined ? undefined : deadlineAfter(Math.round(allowedMs));
    const either = limit ? AbortSignal.any([signal, limit.signal]) : signal;
    const draft = new Draft();
    let outcome: ModelOutcome;
    let usage: Usage = {}; // A request that did not reach the provider consumed no tokens.
    let limits: ProviderLimits | undefined;
    const endpoint = mended(this.#model);
    try {
      const { stream, headers, prompter } = await this.#start(endpoint, open, either);
      limits = limitsIn(headers);
      const failed = await this.#listen(stream, draft, open, either);
      usage = endpoint.own || endpoint.seen.streaming ? draft.usage : {};
      outcome = failed ?? this.#answered(draft, prompter);
    } catch (error) {
      outcome = failureOf(error);
      usage = endpoint.seen.streaming ? { estimated: true, ...usage } : usage;
      limits = limitsIn(headersOf(error));
    }
    limit?.cancel();
    signal.throwIfAborted();
    if (limit?.signal.aborted && !("answer" in outcome)) {
      const text = `no complete answer within ${Math.round(allowedMs ?? 0)} ms`;
      outcome = unusable("MODEL_TIMEOUT", text);
      usage = { estimated: true, ...usage };
    }
    return { outcome: discreet(outcome, endpoint.seen.keys), usage, limits };
  }

  /** Begins the call. */
  async #start({ model, own }: Mended, open: Open, abortSignal: AbortSignal) {
    const ask = this.#talk.ask(Number(open.step.model?.maxOutputTokens ?? 0));
    const prompter = new Prompter(model, ask, !own, this.#strange);
    const options = { ...prompter.options(ask), abortSignal };
    const { stream, response } = await model.doStream(options as never);
    const headers = response?.headers && new Headers(response.headers);
    return { stream: stream as ReadableStream<StreamPart>, headers, prompter };
  }

  /** Reads the stream; returns the failure if there is no answer. */
  async #listen(
    stream: ReadableStream<StreamPart>,
    draft: Draft,
    { maxBytes }: Open,
    signal: AbortSignal,
  ): Promise<Failed | undefined> {
    const reader = stream.getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        signal.throwIfAborted();
        if (done) {
          return draft.unfinished();
        }
        const shown = draft.take(value);
        if (draft.size > maxBytes) {
          return tooLarge(maxBytes);
        }
        const passed = draft.passedOver.map(parameterOf).find((name) => name !== undefined);
        if (passed !== undefined) {
          const message = `parameters.${passed}: ${this.#model.provider} has no such parameter`;
          return {
            failure: { error: { code: "PARAMETER_UNSUPPORTED", message }, nonRetryable: true },
          };
        }
        await this.#shown.add(shown);
      }
    } catch (error) {
      return brokenBy(error);
    } finally {
      void reader.cancel().catch(() => undefined);
    }
  }

  /** Returns the normalized answer, with the tool names of the pack. */
  #answered(draft: Draft, prompter: Prompter): ModelOutcome {
    const { round } = this.#talk;
    const given = draft.blocks.map((block) => {
      const { toolName, toolCallId } = block;
      return {
        ...block,
        ...(toolName === undefined ? {} : { toolName: prompter.ours(toolName) }),
        ...(toolCallId?.startsWith(NO_ID) ? { toolCallId: "" } : {}),
      };
    });
    const made = normalizeAnswer(given, "", { round, known: this.#talk.callIds() });
    const finishReason = finishOf(draft.finish);
    if (!made) {
      return unusable("NO_ANSWER", "the answer has no text and no call");
    }
    const { texts, calls, blocks } = made;
    const answer: ModelAnswer = {
      content: texts.length > 0 ? texts : undefined,
      calls,
      finishReason,
      model: draft.model || this.#model.modelId,
      responseId: draft.responseId,
      provider: envelope(this.#model, blocks),
      providerName: this.#model.provider.split(".")[0],
    };
    return { answer };
  }

  /** Reports the outcome of a call; returns the recorded answer, or the next attempt. */
  async #report(
    open: Open,
    attempt: number,
    came: Came,
    second: () => Promise<RoundRequest>,
  ): Promise<IncludedMessages | number> {
    const { outcome, usage, limits } = came;
    const { step } = open.step;
    let report: Told;
    try {
      report = await this.#turn.answerModel({ step, attempt, outcome, usage, limits });
    } catch (error) {
      const refused = "answer" in outcome ? refusalOf(error) : undefined;
      if (!refused) {
        throw error;
      }
      return this.#report(open, attempt, { outcome: refused, usage, limits }, second);
    }
    if (report.disposition === Disposition.IGNORED_STALE) {
      return this.#reportAgain(came, second);
    }
    throwIfOver(report);
    return "answer" in outcome
      ? newlyIncluded(open.step, outcome.answer, usage)
      : this.#next(report, outcome.failure);
  }

  /** Returns the attempt that follows a failure, after its pause. */
  async #next(reported: Told, { error, nonRetryable }: ModelFailure): Promise<number> {
    if (reported.next === 0) {
      throw failTurn(error.code, error.message, { retryable: !nonRetryable });
    }
    await sleep(reported.wait ?? 0, this.#turn.signal);
    return reported.next;
  }

  /**
   * Requests the round again after the sidecar was away and gave the turn another token, and takes
   * the recorded answer if there is one. The consumption was counted before. If the request now has
   * new messages, the recorded answer does not belong to it.
   */
  async #reportAgain(
    { outcome, usage }: Came,
    repeat: () => Promise<RoundRequest>,
  ): Promise<IncludedMessages | number> {
    const open = await repeat();
    const recorded = recordedOf(open);
    if (recorded) {
      return recorded;
    }
    const { step, attempt } = open.step;
    if ("failure" in outcome) {
      return attempt;
    }
    if (open.grown) {
      return attempt;
    }
    const counted: Usage = { countedBefore: true };
    const received = await this.#turn.answerModel({ step, attempt, outcome, usage: counted });
    if (received.disposition === Disposition.IGNORED_STALE) {
      throw new PawlError("state", "this execution of the turn is over", { reason: "TURN_STALE" });
    }
    throwIfOver(received);
    return newlyIncluded(open.step, outcome.answer, usage);
  }

  async #until(moment: Date | undefined): Promise<void> {
    const left = moment ? moment.getTime() - Date.now() : 0;
    if (left > 0) {
      await sleep(left, this.#turn.signal);
    }
  }
}

/** Returns how long a call may take: less than the time left, so that its end can be reported. */
function allowedBy(leftMs: number): number {
  return Math.max(1, leftMs - Math.min(leftMs / 10, 1000));
}

type Told = Awaited<ReturnType<Turn["answerModel"]>>;

/** The text and reasoning of a turn that readers see, as far as it is final. */
class Shown {
  readonly #turn: Turn;
  /** Bytes of answered rounds, and of all shown text. */
  #kept = 0;
  #bytes = 0;
  #fault: { readonly error: unknown } | undefined;
  /** Of each kind, the first half of a surrogate pair whose second half is still to come. */
  readonly #halves = { text: "", reasoning: "" };

  constructor(turn: Turn) {
    this.#turn = turn;
  }

  /** Shows a piece. An error here does not fail the model call: its answer is recorded first. */
  async add({ text, reasoning }: Piece): Promise<void> {
    await this.#add("text", text, (whole) => this.#turn.output(whole));
    await this.#add("reasoning", reasoning, (whole) => this.#turn.reasoning(whole));
  }

  async #add(
    kind: "text" | "reasoning",
    piece: string | undefined,
    show: (whole: string) => Promise<void>,
  ): Promise<void> {
    const all = this.#halves[kind] + (piece ?? "");
    const shown = all.replace(/[\ud800-\udbff]$/, "");
    this.#halves[kind] = all.slice(shown.length);
    if (shown) {
      this.#bytes += new TextEncoder().encode(shown).length;
      await this.#try(() => show(shown));
    }
  }

  /** Makes the shown text final. Throws the error of showing it. */
  settle(): void {
    if (this.#fault) {
      throw this.#fault.error;
    }
    this.#kept = this.#bytes;
  }

  /** Takes back the shown text of a failed attempt. */
  async reset(): Promise<void> {
    const taken = this.#bytes - this.#kept;
    this.#bytes = this.#kept;
    Object.assign(this.#halves, { text: "", reasoning: "" });
    if (taken > 0) {
      await this.#try(() => this.#turn.retractOutput(taken));
    }
  }

  async #try(show: () => Promise<void>): Promise<void> {
    if (!this.#fault) {
      await show().catch((error: unknown) => {
        this.#fault = { error };
      });
    }
  }
}

/** Returns the step of a round that is answered, or whose call is to be made. */
function openOf({ step, denial, maxAnswerBytes }: ModelRound): Open {
  if (!step) {
    throw over(
      `the sidecar refused the model call: ${denial?.code ?? ""}: ${denial?.message ?? ""}`,
    );
  }
  if (step.status !== StepStatus.OK && step.status !== StepStatus.PENDING) {
    const { code = "MODEL_ERROR", message = "the call came to nothing" } = step.error ?? {};
    throw failTurn(code, message, { retryable: !isFinal(code) });
  }
  return { step, maxBytes: maxAnswerBytes };
}

/** Returns the recorded answer of a round, if there is one. */
function recordedOf({ step }: Open): IncludedMessages | undefined {
  const { answer, usage = {} } = step.model ?? {};
  return step.status === StepStatus.OK && answer
    ? includedIn(step, answer, usage, true)
    : undefined;
}

/** Returns a new answer in the form of the record. */
function newlyIncluded(step: Step, answer: ModelAnswer, usage: Usage): IncludedMessages {
  const { content, calls = [], provider, refusal = "", finishReason = "" } = answer;
  const parts = partsOf(content).map((part) => plain(PartSchema, part));
  return includedIn(step, { parts, calls, provider, refusal, finishReason }, usage, false);
}

/** Most letters of a provider's own finish reason that is recorded. */
const MAX_FINISH = 100;

/**
 * Returns why an answer ended: the contract's word, or the provider's own if the library has none
 * for it; empty: the provider sent none.
 */
function finishOf({ unified = "", raw = "" }: NonNullable<Draft["finish"]> = {}): string {
  if (raw === UNSAID) {
    return "";
  }
  const own = raw === "pause_turn" || (unified === "other" && raw !== "");
  return own ? raw.slice(0, MAX_FINISH) : unified.replaceAll("-", "_");
}

type Words = Pick<IncludedMessages, "parts" | "calls" | "provider" | "refusal" | "finishReason">;

function includedIn(
  { step }: Step,
  words: Words,
  usage: Usage,
  replayed: boolean,
): IncludedMessages {
  const { parts, calls, provider, refusal, finishReason } = words;
  return { step, parts, calls, provider, refusal, finishReason, usage, replayed };
}

function throwIfOver(report: Told): void {
  if (report.disposition === Disposition.IGNORED_TERMINAL || report.ended) {
    throw over("the run has ended");
  }
}

function over(text: string): PawlError {
  return new PawlError("state", text, { reason: "RUN_TERMINAL" });
}
