/**
 * Turns executed by a model, each of whose answers is a record. Models are those of the AI SDK's
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

/** How a turn is executed by a model. `O` is what `output` is. */
export interface ModelOptions<O = unknown> {
  /**
   * What the pack and the records call the model: `model_overrides`, `x_pawl.prices`. Default:
   * the name in `model`, its `modelId`.
   */
  readonly name?: string;
  /**
   * Most answers of the model in one turn, before one more that is for leaving the state.
   * Default 16; the pack's tool_policy.max_rounds may lower it.
   */
  readonly maxRounds?: number;
  /**
   * True: text that does not leave the state is an answer to the person, and the run waits for
   * the next input; the model can ask a question too. Default: in states of orchestration
   * hybrid or external.
   */
  readonly chat?: boolean;
  /**
   * Settings of the call beside those of the pack, by the names of the AI SDK:
   * `{ temperature: 0, providerOptions: { openai: { reasoningEffort: "low" } } }`. They are
   * recorded with the parameters. Default: none.
   */
  readonly settings?: Values;
  /**
   * The answer as a value: a schema of zod or of another library with Standard JSON Schema, a
   * JSON Schema, or one of them for each prompt by its id. The turn's output is the value as
   * JSON. In states with a way out the function that leaves them has it as `output`, which is
   * required; elsewhere the provider is asked for JSON that fits. A value that does
   * not fit is answered with the reason, and asked for again. Default: text.
   */
  readonly output?: O;
  /** Hears of messages that are not read here. Default: standard error. */
  readonly log?: Log;
}

const MAX_ROUNDS = 16;

/** A handler that asks a model. */
export type ModelHandler<T = Json> = UntypedHandler & {
  /**
   * The value that the output of a run is, as its schema made it and JSON keeps it. Throws a
   * PawlError (NO_VALUE) where the output has none.
   */
  value(result: { readonly output: readonly Part[] }): T;
};

/**
 * A turn handler that asks a model. The endpoint and its key are as the provider's package reads
 * them. The calls of a round, their bounds and their repetition are the sidecar's: the SDK
 * repeats nothing. Codes of failures are in docs/guides/models.md. Throws a RangeError for options that
 * make no sense.
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

/** Warns once of each library with messages that are not read here. */
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

/** Options of a call that no `settings` may have: what else would say them, and what has keys. */
const OWN = [
  "prompt",
  "tools",
  "toolChoice",
  "responseFormat",
  "abortSignal",
  "headers",
  "includeRawChunks",
];

/** What came of a call of the model, and what it consumed. */
interface Came {
  readonly outcome: ModelOutcome;
  readonly usage: Usage;
  readonly limits: ProviderLimits | undefined;
}

/** A MODEL step that waits for its answer. */
interface Open {
  readonly step: Step;
  readonly maxBytes: number;
}

/** The same as it was asked for just now; `grown`: with messages that no model has received yet. */
interface RoundRequest extends Open {
  readonly grown: boolean;
}

/** The execution of one turn. */
class Execution {
  readonly #turn: Turn;
  readonly #model: LanguageModel;
  readonly #talk: Talk;
  readonly #shown: Shown;
  /** Records that the conversation has because a request had to contain them. */
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

  /** Asks the next round: the record, else the model. */
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

  /** Takes what the request contains beside what was asked; true: there are new messages. */
  #includeMessages({ includedMessages }: ModelRound): boolean {
    const fresh = includedMessages.filter(({ seq }) => !this.#included.has(seq));
    for (const { seq } of fresh) {
      this.#included.add(seq);
    }
    this.#talk.include(fresh);
    return fresh.length > 0;
  }

  /** Makes the call until it is answered, or has used up its attempts. */
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

  /** Makes the call once, and shows the text as it comes in. */
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

  /** Reads the stream; gives why it is no answer. */
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
          const message = `the answer has more than ${maxBytes} bytes`;
          return { failure: { error: { code: "ANSWER_TOO_LARGE", message }, nonRetryable: true } };
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

  /** The answer, normal, under the names of the pack. */
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

  /** Tells what came of a call; gives what was heard, or the attempt to make next. */
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

  /** The attempt that follows a failure, once it may be made. */
  async #next(reported: Told, { error, nonRetryable }: ModelFailure): Promise<number> {
    if (reported.next === 0) {
      throw failTurn(error.code, error.message, { retryable: !nonRetryable });
    }
    await sleep(reported.wait ?? 0, this.#turn.signal);
    return reported.next;
  }

  /**
   * The sidecar was away meanwhile, and the turn has another token: the round is asked for
   * again, and gets the answer that there is. What it consumed was counted before. Where the request has new messages now, the
   * recorded answer does not belong to it.
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

/** How long a call may take of what is left of its time: less, so that its end can be told. */
function allowedBy(leftMs: number): number {
  return Math.max(1, leftMs - Math.min(leftMs / 10, 1000));
}

type Told = Awaited<ReturnType<Turn["answerModel"]>>;

/** What people see of a turn, as far as it is known to stay: text and reasoning. */
class Shown {
  readonly #turn: Turn;
  /** Bytes of rounds that are answered, and of all that was shown. */
  #kept = 0;
  #bytes = 0;
  #fault: { readonly error: unknown } | undefined;
  /** Of each, the first half of a character whose second one is yet to come. */
  readonly #halves = { text: "", reasoning: "" };

  constructor(turn: Turn) {
    this.#turn = turn;
  }

  /** Shows a piece. A failure here is none of the model: its answer is recorded first. */
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

  /** What was shown is an answer. Throws what went wrong with showing it. */
  settle(): void {
    if (this.#fault) {
      throw this.#fault.error;
    }
    this.#kept = this.#bytes;
  }

  /** Takes back what was shown of an attempt that failed. */
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

/** The step of a round that is answered, or has its call to make. */
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

/** The answer that a round has by now. */
function recordedOf({ step }: Open): IncludedMessages | undefined {
  const { answer, usage = {} } = step.model ?? {};
  return step.status === StepStatus.OK && answer
    ? includedIn(step, answer, usage, true)
    : undefined;
}

/** An answer that came just now, as the record has it. */
function newlyIncluded(step: Step, answer: ModelAnswer, usage: Usage): IncludedMessages {
  const { content, calls = [], provider, refusal = "", finishReason = "" } = answer;
  const parts = partsOf(content).map((part) => plain(PartSchema, part));
  return includedIn(step, { parts, calls, provider, refusal, finishReason }, usage, false);
}

/** The longest word of a provider's own for the end of an answer that is recorded, letters. */
const MAX_FINISH = 100;

/**
 * Why an answer ended: the contract's word, or the provider's own where the library has none for
 * it; empty: the provider did not say.
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

/** What an answer is that the sidecar does not take: none; it was paid for all the same. */
function refusalOf(error: unknown): ModelOutcome | undefined {
  if (PawlError.is(error, "ANSWER_TOO_LARGE")) {
    return {
      failure: { error: { code: error.reason, message: error.message }, nonRetryable: true },
    };
  }
  return PawlError.is(error) && error.kind === "request"
    ? unusable("ANSWER_INVALID", error.message)
    : undefined;
}

function throwIfOver(report: Told): void {
  if (report.disposition === Disposition.IGNORED_TERMINAL || report.ended) {
    throw over("the run has ended");
  }
}

function over(text: string): PawlError {
  return new PawlError("state", text, { reason: "RUN_TERMINAL" });
}
