/** Calls of models as recorded steps: a call that was answered once is answered from the record. */

import type { Journal } from "./ai_journal.js";
import { asRecorded, recordable, recordableText, recorded } from "./ai_record.js";
import { type CallOptions, type Message, type Recorded, Requests } from "./ai_request.js";
import type { Scope } from "./ai_scope.js";
import { type Generated, generatedOf, type Streamed, streamedOf } from "./ai_stream.js";
import { PawlError } from "./errors.js";
import { StepStatus } from "./gen/pawl/v1/record_pb.js";
import { Disposition } from "./gen/pawl/v1/run_pb.js";
import type { Block, StreamPart } from "./language_model.js";
import {
  brokenBy,
  discreet,
  type Failed,
  failureOf,
  isFinal,
  refusalOf,
  tooLarge,
  unusable,
} from "./model_fault.js";
import type {
  ModelAnswer,
  ModelAsk,
  ModelOutcome,
  ModelReport,
  ModelRound,
  ToolCallRef,
} from "./model_step.js";
import { normalizeAnswer } from "./normalize_answer.js";
import type { Json } from "./plain_message.js";
import type { Usage } from "./reply.js";
import { newId, sleep } from "./retry.js";
import { deadlineAfter } from "./timer.js";
import type { Step } from "./turn.js";

/** The used part of a model of the AI SDK, of the interfaces v3 (`ai` 6) and v4 (`ai` 7). */
export interface AnyModel {
  readonly specificationVersion: string;
  readonly provider: string;
  readonly modelId: string;
  readonly supportedUrls: unknown;
  doGenerate(options: never): PromiseLike<object>;
  doStream(options: never): PromiseLike<{ readonly stream: unknown }>;
}

/** A tool call of a recorded answer. */
export interface KnownCall extends ToolCallRef {
  /** Key of the step that makes the call. */
  readonly key: string;
  readonly name: string;
  /** Text of a JSON object. Undefined means that the model wrote none. */
  readonly arguments: string | undefined;
}

const LIBRARY = "pawl-client/ai-sdk";
const VERSIONS = ["v3", "v4"];

/** Throws a RangeError for a value that is no model of `ai` 6 or 7. */
export function checkModel(model: AnyModel): void {
  const { specificationVersion, doGenerate, doStream } = Object(model ?? null) as AnyModel;
  if (typeof doGenerate !== "function" || typeof doStream !== "function") {
    throw new RangeError('model: a model of the AI SDK, as openai("gpt-5-mini") is one');
  }
  if (!VERSIONS.includes(specificationVersion)) {
    const known = VERSIONS.join(" or ");
    throw new RangeError(
      `model: its specificationVersion must be ${known} (ai 6, 7), not ${specificationVersion}`,
    );
  }
}

/** A call that has no answer yet. */
interface Open {
  readonly step: Step;
  readonly key: string;
  readonly maxBytes: number;
}

/** What the record has of an answer: the value of `doGenerate`, or the parts of `doStream`. */
type Kept = { readonly generated: Generated } | { readonly streamed: Streamed };

/** The outcome of one attempt. */
interface Attempt {
  /** The answer. Undefined means that the attempt failed. */
  readonly kept?: Kept;
  readonly outcome: ModelOutcome;
  readonly usage: Usage;
  readonly error?: unknown;
}

/** The model calls of one execution of a program. */
export class ModelCalls {
  readonly #journal: Journal;
  readonly #requests = new Requests();
  /** The error of the last stream that broke. */
  failure: unknown;
  readonly #calls = new Map<string, KnownCall[]>();
  /** Messages that the sidecar added, and before which message of the prompt they stand. */
  readonly #included = new Map<number, { readonly before: number; readonly text: string }>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /**
   * Returns the recorded call that the SDK makes now, each once. Several can have one id, if two
   * conversations run at the same time: then their arguments distinguish them.
   */
  take(toolCallId: string, name: string, given: string): KnownCall | undefined {
    const known = (this.#calls.get(toolCallId) ?? []).filter((call) => call.name === name);
    const taken = known.find((call) => call.arguments === given) ?? known.at(-1);
    const left = this.#calls.get(toolCallId)?.filter((call) => call !== taken) ?? [];
    this.#calls.set(toolCallId, left);
    return taken;
  }

  /** A tool call of the program was answered. */
  result(toolCallId: string, step: number, value: unknown): void {
    this.#requests.result(toolCallId, step, value);
  }

  /** Makes a call that returns a whole answer. */
  async generate(model: AnyModel, options: CallOptions, scope: Scope): Promise<object> {
    const call = new Call(this, this.#journal, model, options, scope, this.#requests);
    const kept = await call.answer(async (given) => {
      const result = await model.doGenerate(given as never);
      const generated = asRecorded(trimmed(result, model)) as Generated;
      return { kept: { generated }, usage: usageOf(generated.usage) };
    });
    return "generated" in kept ? kept.generated : generatedOf(kept.streamed);
  }

  /** Makes a call that streams its answer. */
  async stream(
    model: AnyModel,
    options: CallOptions,
    scope: Scope,
  ): Promise<{ readonly stream: ReadableStream<StreamPart> }> {
    const call = new Call(this, this.#journal, model, options, scope, this.#requests);
    return { stream: await call.stream() };
  }

  /** Takes the messages that the sidecar added to a request. */
  include(messages: ModelRound["includedMessages"], before: number): void {
    for (const { seq, text } of messages) {
      if (!this.#included.has(seq)) {
        this.#included.set(seq, { before, text });
      }
    }
  }

  /** Returns a prompt with the messages that the sidecar added to its requests. */
  promptOf(prompt: readonly Message[]): Message[] {
    const added = [...this.#included.values()].filter(({ before }) => before <= prompt.length);
    const whole = [...prompt];
    for (const { before, text } of added.reverse()) {
      whole.splice(before, 0, { role: "user", content: [{ type: "text", text }] });
    }
    return whole;
  }

  /** Takes a recorded answer. */
  answered(step: Step, key: string, calls: ModelAnswer["calls"]): void {
    for (const [index, { id, name, arguments: text, brokenArguments }] of (calls ?? []).entries()) {
      const given = brokenArguments ? undefined : text;
      const known = { modelStep: step.step, index, key: `${key}/${index}`, name, arguments: given };
      this.#calls.set(id, [...(this.#calls.get(id) ?? []), known]);
    }
  }
}

/** Makes one attempt; throws the error of a call that gave no stream. */
type Make = (
  options: CallOptions,
) => Promise<{ readonly kept: Kept; readonly usage: Usage } | { readonly broken: Broken }>;

/** One model call of a program. */
class Call {
  readonly #all: ModelCalls;
  readonly #journal: Journal;
  readonly #model: AnyModel;
  readonly #options: CallOptions;
  readonly #ask: ModelAsk & { readonly key: string };
  readonly #recorded: Recorded;
  readonly #requests: Requests;

  constructor(
    all: ModelCalls,
    journal: Journal,
    model: AnyModel,
    options: CallOptions,
    scope: Scope,
    requests: Requests,
  ) {
    this.#all = all;
    this.#journal = journal;
    this.#model = model;
    this.#options = options;
    this.#requests = requests;
    this.#recorded = requests.of(model.modelId, options);
    const { key, ordinal } = scope.next("model");
    const { request, bound } = this.#recorded;
    this.#ask = { round: ordinal, key, request, bound };
  }

  /** Returns the recorded answer, or else that of the model. */
  async answer(make: Make): Promise<Kept> {
    const open = await this.#request();
    const known = this.#keptOf(open);
    if (known) {
      return known;
    }
    await this.#until(open.step.model?.notBefore);
    for (let { attempt } = open.step; ; ) {
      const came = await this.#attempt(open, make);
      const after = await this.#report(open, attempt, came);
      if (typeof after !== "number") {
        return after;
      }
      attempt = after;
    }
  }

  /**
   * Returns the stream of the answer. Parts are passed on as they arrive, up to the first tool call:
   * a tool is called only after the answer that called it is recorded.
   */
  async stream(): Promise<ReadableStream<StreamPart>> {
    const passing = new Passing(this.#model.modelId);
    const answer = this.answer(async (options) => {
      const { stream } = await this.#model.doStream(options as never);
      return passing.listen(stream as ReadableStream<StreamPart>, options.abortSignal);
    });
    answer.then(
      (kept) => passing.finish("streamed" in kept ? kept.streamed : streamedOf(kept.generated)),
      (error: unknown) => {
        this.#all.failure = error;
        passing.fail(error);
      },
    );
    await passing.begun;
    return passing.stream;
  }

  async #request(): Promise<Open> {
    const round = await this.#journal.requestModel(this.#ask);
    this.#all.include(round.includedMessages, this.#options.prompt.length);
    const { step, denial, maxAnswerBytes } = round;
    if (!step) {
      const text = `the sidecar refused the model call: ${denial?.code ?? ""}: ${denial?.message ?? ""}`;
      throw new PawlError("step_refused", text, { reason: denial?.code ?? "", retryable: false });
    }
    if (step.status !== StepStatus.OK && step.status !== StepStatus.PENDING) {
      const { code = "MODEL_ERROR", message = "the call came to nothing" } = step.error ?? {};
      throw this.#error(code, message, !isFinal(code));
    }
    return { step, key: this.#ask.key, maxBytes: maxAnswerBytes };
  }

  /** Returns the recorded answer of a call, if there is one. */
  #keptOf({ step, key }: Open): Kept | undefined {
    const answer = step.status === StepStatus.OK ? step.model?.answer : undefined;
    if (!answer) {
      return undefined;
    }
    this.#all.answered(step, key, answer.calls);
    this.#requests.answered(step.step, this.#recorded);
    const { library, message } = Object(answer.provider ?? null) as {
      readonly library?: unknown;
      readonly message?: Json;
    };
    if (library !== LIBRARY) {
      const text = `model call ${key}: ${String(library)} recorded its answer, which the AI SDK cannot read`;
      throw new PawlError("state", text, { reason: "RUN_CHANGED" });
    }
    return recorded(message) as Kept;
  }

  /** Makes the call once. */
  async #attempt({ step, maxBytes }: Open, make: Make): Promise<Attempt> {
    const { deadline } = step;
    const limit = deadline && deadlineAfter(allowedBy(deadline.getTime() - Date.now()));
    const { abortSignal } = this.#options;
    const signals = [abortSignal, this.#journal.signal, limit?.signal].filter((one) => !!one);
    const reserved = Number(step.model?.maxOutputTokens ?? 0);
    const options = {
      ...this.#options,
      prompt: this.#all.promptOf(this.#options.prompt),
      ...(reserved > 0 ? { maxOutputTokens: reserved } : {}),
      abortSignal: AbortSignal.any(signals),
    };
    let broken: Broken;
    try {
      const made = await make(options);
      if ("kept" in made) {
        const { kept, usage } = made;
        const message = recordable(kept);
        return recordableText(message).length > maxBytes
          ? { outcome: tooLarge(maxBytes), usage }
          : { kept, outcome: this.#answerOf(kept, message), usage };
      }
      broken = made.broken;
    } catch (cause) {
      broken = { began: false, cancelled: false, cause };
    } finally {
      limit?.cancel();
    }
    this.#journal.signal.throwIfAborted();
    const late = limit?.signal.aborted ?? false;
    const came = failed(broken, abortSignal?.aborted ?? false, late);
    return { ...came, outcome: discreet(came.outcome, keysIn(this.#options.headers)) };
  }

  #answerOf(kept: Kept, message: Json): ModelOutcome {
    const generated = "generated" in kept ? kept.generated : generatedOf(kept.streamed);
    const { content, finishReason, response } = generated;
    const place = { round: this.#ask.round, known: [] };
    const made = normalizeAnswer(content as unknown as readonly Block[], "", place);
    const text = made?.texts.join("") ?? "";
    const answer: ModelAnswer = {
      // An answer without text and calls is one as well: the model came to its end.
      content: text === "" && (made?.calls ?? []).length === 0 ? [""] : text ? [text] : [],
      calls: made?.calls ?? [],
      finishReason: (finishReason?.unified ?? "").replaceAll("-", "_"),
      model: response?.modelId ?? this.#model.modelId,
      responseId: response?.id ?? "",
      provider: { library: LIBRARY, version: this.#model.specificationVersion, message },
      providerName: this.#model.provider.split(".")[0] ?? "",
    };
    return { answer };
  }

  /** Reports the outcome of an attempt; returns the recorded answer, or the next attempt. */
  async #report(open: Open, attempt: number, came: Attempt): Promise<Kept | number> {
    const { kept, outcome, usage } = came;
    const { step } = open.step;
    let report: Awaited<ReturnType<Journal["answerModel"]>>;
    try {
      report = await this.#journal.answerModel({ step, attempt, outcome, usage });
    } catch (error) {
      const refused = "answer" in outcome ? refusalOf(error) : undefined;
      if (!refused) {
        throw error;
      }
      return this.#report(open, attempt, { outcome: refused, usage });
    }
    if (report.disposition === Disposition.IGNORED_STALE) {
      return this.#reportAgain(came);
    }
    this.#throwIfOver(report);
    return kept && "answer" in outcome
      ? this.#take(open, outcome.answer, kept)
      : this.#next(report, outcome as Failed, came.error);
  }

  /**
   * Requests the call again after the sidecar was away and gave the turn another token. The
   * consumption was counted before.
   */
  async #reportAgain({ kept, outcome }: Attempt): Promise<Kept | number> {
    const open = await this.#request();
    const known = this.#keptOf(open);
    if (known || !kept || "failure" in outcome) {
      return known ?? open.step.attempt;
    }
    const { step, attempt } = open.step;
    const report: ModelReport = { step, attempt, outcome, usage: { countedBefore: true } };
    const received = await this.#journal.answerModel(report);
    if (received.disposition === Disposition.IGNORED_STALE) {
      throw new PawlError("state", "this execution of the turn is over", { reason: "TURN_STALE" });
    }
    this.#throwIfOver(received);
    return this.#take(open, outcome.answer, kept);
  }

  #take({ step, key }: Open, { calls }: ModelAnswer, kept: Kept): Kept {
    this.#all.answered(step, key, calls);
    this.#requests.answered(step.step, this.#recorded);
    return kept;
  }

  /** Returns the attempt that follows a failure, after its pause. Throws if there is none. */
  async #next(
    report: { readonly next: number; readonly wait?: number | undefined },
    { failure }: Failed,
    cause: unknown,
  ): Promise<number> {
    const { error, nonRetryable = false } = failure;
    if (error.code === ABORTED) {
      throw cause;
    }
    if (report.next === 0) {
      throw this.#error(error.code, error.message ?? "", !nonRetryable, cause);
    }
    await sleep(report.wait ?? 0, this.#journal.signal);
    return report.next;
  }

  #error(code: string, message: string, retryable: boolean, cause?: unknown): PawlError {
    const text = `model ${this.#model.modelId}: ${code}: ${message}`;
    return new PawlError("step_failed", text, { reason: code, retryable, cause });
  }

  #throwIfOver(report: { readonly disposition: Disposition; readonly ended?: unknown }): void {
    if (report.disposition === Disposition.IGNORED_TERMINAL || report.ended) {
      throw new PawlError("state", "the run has ended", { reason: "RUN_TERMINAL" });
    }
  }

  async #until(moment: Date | undefined): Promise<void> {
    const left = moment ? moment.getTime() - Date.now() : 0;
    if (left > 0) {
      await sleep(left, this.#journal.signal);
    }
  }
}

/** Why a stream ended without an answer. */
interface Broken {
  /** Its reader has a part of the answer. */
  readonly began: boolean;
  /** Its reader has cancelled it. */
  readonly cancelled: boolean;
  readonly cause: unknown;
}

/** Parts that say nothing of the answer itself. */
const PRELUDE = ["stream-start", "response-metadata", "ping"];

/** The stream of an answer that its reader receives while it is made. */
class Passing {
  readonly stream: ReadableStream<StreamPart>;
  /** Resolves with the first part of the answer; rejects if there is no answer. */
  readonly begun: Promise<void>;
  #begin: () => void = () => undefined;
  #refuse: (error: unknown) => void = () => undefined;
  #controller: ReadableStreamDefaultController<StreamPart> | undefined;
  readonly #cancelled = new AbortController();
  /** How many parts the reader has. */
  #passed = 0;
  #began = false;
  readonly #modelId: string;

  constructor(modelId: string) {
    this.#modelId = modelId;
    this.begun = new Promise((resolve, reject) => {
      this.#begin = resolve;
      this.#refuse = reject;
    });
    this.stream = new ReadableStream<StreamPart>({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: (reason) => {
        this.#controller = undefined;
        this.#cancelled.abort(reason);
      },
    });
  }

  /** Reads a stream to its end. */
  async listen(stream: ReadableStream<StreamPart>, signal: AbortSignal | undefined) {
    const parts: StreamPart[] = [];
    const stop = AbortSignal.any([this.#cancelled.signal, ...(signal ? [signal] : [])]);
    const reader = stream.getReader();
    const aborted = () => void reader.cancel(stop.reason).catch(() => undefined);
    stop.addEventListener("abort", aborted, { once: true });
    const about = aboutAnswer(this.#modelId);
    let described = false;
    let held = false;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        stop.throwIfAborted();
        if (done) {
          break;
        }
        if (value.type === "error") {
          throw value.error;
        }
        if (value.type === "raw") {
          continue; // It repeats what the other parts say, and would be recorded.
        }
        const part = asRecorded(
          value.type === "response-metadata" ? { ...about, ...value } : value,
        );
        described ||= part.type === "response-metadata";
        if (!described && !PRELUDE.includes(part.type)) {
          described = true;
          parts.push(asRecorded({ type: "response-metadata", ...about }) as StreamPart);
        }
        parts.push(part);
        held ||= part.type === "tool-call" || part.type === "finish";
        if (!held) {
          this.#pass(parts);
        }
      }
    } catch (error) {
      return this.#broken(error);
    } finally {
      stop.removeEventListener("abort", aborted);
      void reader.cancel().catch(() => undefined);
    }
    const finish = parts.findLast(({ type }) => type === "finish");
    if (!finish) {
      const text = "the stream ended in the midst of the answer";
      return this.#broken(new Error(text));
    }
    return { kept: { streamed: { parts } }, usage: usageOf(finish.usage) };
  }

  #broken(cause: unknown): { readonly broken: Broken } {
    return {
      broken: { began: this.#began, cancelled: this.#cancelled.signal.aborted, cause },
    };
  }

  /** Passes parts on that the reader does not have, from the first part of the answer on. */
  #pass(parts: readonly StreamPart[]): void {
    if (!this.#began && PRELUDE.includes(parts.at(-1)?.type ?? "")) {
      return; // A failure can still be repeated without a trace.
    }
    this.#began = true;
    for (const part of parts.slice(this.#passed)) {
      this.#controller?.enqueue(part);
    }
    this.#passed = parts.length;
    this.#begin();
  }

  /** The answer is recorded: its reader receives the rest. */
  finish({ parts }: Streamed): void {
    for (const part of parts.slice(this.#passed)) {
      this.#controller?.enqueue(part as StreamPart);
    }
    this.#controller?.close();
    this.#begin();
  }

  /** There is no answer. */
  fail(error: unknown): void {
    if (!this.#began) {
      this.#refuse(error);
      return;
    }
    this.#controller?.enqueue({ type: "error", error });
    this.#controller?.close();
  }
}

/** Returns the outcome of an attempt without an answer. */
function failed({ began, cancelled, cause }: Broken, aborted: boolean, late: boolean): Attempt {
  const usage: Usage = began || cancelled || aborted || late ? { estimated: true } : {};
  if (aborted || cancelled) {
    const error = { code: ABORTED, message: "the program aborted the call" };
    return { outcome: { failure: { error, nonRetryable: true } }, usage, error: cause };
  }
  const { failure } = late
    ? unusable("MODEL_TIMEOUT", "no complete answer in time")
    : began
      ? brokenBy(cause)
      : failureOf(cause);
  // What the reader has received cannot be taken back.
  const outcome = { failure: { ...failure, ...(began ? { nonRetryable: true } : {}) } };
  return { outcome, usage, error: cause };
}

/** Returns what can be a key in the headers of a program, which an endpoint may repeat. */
function keysIn(headers: unknown): string[] {
  const values = Object.values(Object(headers ?? null) as { [name: string]: unknown });
  return values.flatMap((value) => (typeof value === "string" ? value.split(" ") : []));
}

/** Code of a call that the program aborted. */
const ABORTED = "ABORTED";

/** Returns how long a call may take: less than the time left, so that its end can be reported. */
function allowedBy(leftMs: number): number {
  return Math.round(Math.max(1, leftMs - Math.min(leftMs / 10, 1000)));
}

/**
 * Returns an answer without the bodies and headers of HTTP, which repeat the conversation and can
 * have keys. Its id and its time are recorded with it; else the SDK would make new ones each time.
 */
function trimmed(result: object, { modelId }: AnyModel): object {
  const { response, ...rest } = result as Generated;
  const { headers: _headers, body: _body, ...given } = Object(response ?? {}) as Headed;
  return { ...rest, request: undefined, response: { ...aboutAnswer(modelId), ...given } };
}

interface Headed {
  readonly headers?: unknown;
  readonly body?: unknown;
}

function aboutAnswer(modelId: string) {
  return { id: newId(), timestamp: new Date(), modelId };
}

function usageOf(usage: StreamPart["usage"]): Usage {
  const inputTokens = count(usage?.inputTokens?.total);
  const outputTokens = count(usage?.outputTokens?.total);
  return {
    inputTokens,
    outputTokens,
    cachedTokens: Math.min(count(usage?.inputTokens?.cacheRead), inputTokens),
    reasoningTokens: Math.min(count(usage?.outputTokens?.reasoning), outputTokens),
    estimated: outputTokens === 0,
  };
}

function count(given: unknown): number {
  return typeof given === "number" && Number.isSafeInteger(given) && given >= 0 ? given : 0;
}
