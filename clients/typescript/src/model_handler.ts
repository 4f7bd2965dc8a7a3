/** Turns executed by a model, each of whose answers is a record. */

import { checkForm } from "./answer_form.js";
import {
  brokenBy,
  type Dialect,
  failureOf,
  isFinal,
  type Speech,
  unusable,
  type Values,
} from "./dialect.js";
import { failTurn, PawlError } from "./errors.js";
import { type ModelAnswer as Answered, PartSchema, StepStatus } from "./gen/pawl/v1/record_pb.js";
import { Disposition } from "./gen/pawl/v1/run_pb.js";
import type {
  ModelAnswer,
  ModelCall,
  ModelFailure,
  ModelOutcome,
  ModelRound,
  ProviderLimits,
} from "./models.js";
import { type Json, type Plain, plain } from "./plain.js";
import { limitsIn } from "./provider_limits.js";
import type { Reply, Usage } from "./reply.js";
import { sleep } from "./retry.js";
import { type Heard, type Manner, Talk } from "./talk.js";
import { deadlineAfter } from "./timer.js";
import type { Step, Turn, UntypedHandler } from "./turn.js";
import { partsOf, textOf } from "./values.js";
import { wholeIn } from "./whole.js";

/** How a turn is executed by a model. */
export interface ModelOptions {
  /** Name of the model, as the endpoint knows it. Required. */
  readonly model: string;
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
  /** Further fields of the provider's request, as they are. Default: none. */
  readonly extra?: Values;
  /**
   * A JSON Schema: where a text is an answer (in states that no call leaves, and in a chat) the
   * model is asked for JSON that fits, and told of what does not; the output is that JSON.
   */
  readonly responseSchema?: Json;
}

const MAX_ROUNDS = 16;

/**
 * A turn handler. `noted` are words that are recorded with the parameters. Throws a RangeError
 * for options that make no sense.
 */
export function modelHandler(
  dialect: Dialect,
  options: ModelOptions,
  noted: Values = {},
): UntypedHandler {
  const { model, maxRounds = MAX_ROUNDS, chat, extra = {}, responseSchema: schema } = options;
  if (!model) {
    throw new RangeError("model: a name, not empty");
  }
  if (!Number.isInteger(maxRounds) || maxRounds < 1) {
    throw new RangeError(`maxRounds: a whole number from 1 on, not ${maxRounds}`);
  }
  checkForm(schema);
  const own = schema === undefined ? dialect.own : [...dialect.own, dialect.format];
  const taken = own.find((name) => Object.hasOwn(extra, name));
  if (taken !== undefined) {
    throw new RangeError(`extra.${taken}: what the handler says itself`);
  }
  const manner = { model, maxRounds, chat, extra, schema, noted };
  return async (turn) => new Execution(turn, dialect, manner).reply();
}

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

/** The same as it was asked for just now; `grown`: with something that no model heard yet. */
interface Asked extends Open {
  readonly grown: boolean;
}

/** The execution of one turn. */
class Execution {
  readonly #turn: Turn;
  readonly #dialect: Dialect;
  readonly #talk: Talk;
  readonly #shown: Shown;
  /** The provider's id of the response that is being made, where it can be fetched. */
  #responseId = "";
  /** Records that the conversation has because a request had to contain them. */
  readonly #heeded = new Set<number>();

  constructor(turn: Turn, dialect: Dialect, manner: Manner) {
    this.#turn = turn;
    this.#dialect = dialect;
    this.#talk = new Talk(turn, manner);
    this.#shown = new Shown(turn);
  }

  async reply(): Promise<Reply> {
    const talk = this.#talk;
    while (!talk.reply) {
      const heard = await this.#round();
      this.#shown.settle();
      const calls = talk.heard(heard);
      if (calls.length > 0) {
        talk.answered(calls, await this.#turn.calls(calls));
      }
    }
    return talk.reply;
  }

  /** Asks the next round: the record, else the model. */
  async #round(): Promise<Heard> {
    const ask = { request: this.#talk.request(), round: this.#talk.round };
    const request = { ...ask, bound: this.#talk.bound() };
    const again = async () => {
      const asked = await this.#turn.requestModel(request);
      return { ...openOf(asked), grown: this.#hear(asked) };
    };
    const open = await again();
    const recorded = recordedOf(open);
    if (recorded) {
      await this.#shown.add(textOf(recorded.parts));
      return recorded;
    }
    return this.#answer(open, again);
  }

  /** Takes what the request contains beside what was asked; true: something is new. */
  #hear({ heeds }: ModelRound): boolean {
    const fresh = heeds.filter(({ seq }) => !this.#heeded.has(seq));
    for (const { seq } of fresh) {
      this.#heeded.add(seq);
    }
    this.#talk.heeds(fresh);
    return fresh.length > 0;
  }

  /** Makes the call until it is answered, or has used up its attempts. */
  async #answer(open: Open, again: () => Promise<Asked>): Promise<Heard> {
    const { notBefore, responseId = "" } = open.step.model ?? {};
    this.#responseId = responseId;
    await this.#until(notBefore);
    const { deadline } = open.step;
    const allowedMs = deadline && allowedBy(deadline.getTime() - Date.now());
    for (let { attempt } = open.step; ; ) {
      const came = await this.#call(open, attempt, allowedMs);
      const heard = await this.#tell(open, attempt, came, again);
      if (typeof heard !== "number") {
        return heard;
      }
      attempt = heard;
      await this.#shown.reset();
    }
  }

  /** Makes the call once, and shows the text as it comes in. */
  async #call(open: Open, attempt: number, allowedMs: number | undefined): Promise<Came> {
    const { signal } = this.#turn;
    const limit = allowedMs === undefined ? undefined : deadlineAfter(Math.round(allowedMs));
    const either = limit ? AbortSignal.any([signal, limit.signal]) : signal;
    let outcome: ModelOutcome;
    let usage: Usage = {}; // What the provider was not at work on consumed nothing.
    let limits: ProviderLimits | undefined;
    try {
      const reserved = Number(open.step.model?.maxOutputTokens ?? 0);
      const ask = this.#talk.ask(reserved);
      const speech = await this.#dialect.start(ask, either, this.#responseId);
      ({ limits } = speech);
      outcome = await this.#listen(speech, open, attempt, either);
      ({ usage } = speech.draft);
    } catch (error) {
      outcome = failureOf(error);
      limits = limitsIn((error as { headers?: unknown } | null)?.headers);
    }
    limit?.cancel();
    signal.throwIfAborted();
    if (limit?.signal.aborted && !("answer" in outcome)) {
      outcome = unusable(
        "MODEL_TIMEOUT",
        `no whole answer within ${Math.round(allowedMs ?? 0)} ms`,
      );
    }
    const code = "failure" in outcome ? outcome.failure.error.code : "";
    if (code && !LOST.includes(code)) {
      this.#responseId = ""; // It has come to its end.
    }
    if (code && this.#responseId) {
      usage = {}; // The attempt that fetches the response reports it.
    } else if (code === "MODEL_TIMEOUT") {
      usage = { estimated: true, ...usage };
    }
    return { outcome: this.#discreet(outcome), usage, limits };
  }

  async #listen(
    { draft, texts }: Speech,
    { step, maxBytes }: Open,
    attempt: number,
    signal: AbortSignal,
  ): Promise<ModelOutcome> {
    try {
      for (;;) {
        const { done, value } = await texts.next();
        if (done) {
          // A package ends the stream without a word when the signal is aborted.
          signal.throwIfAborted();
          return draft.end();
        }
        if (draft.size > maxBytes) {
          const message = `the answer has more than ${maxBytes} bytes`;
          return { failure: { error: { code: "ANSWER_TOO_LARGE", message }, final: true } };
        }
        await this.#note(step.step, attempt, draft.responseId);
        await this.#shown.add(value);
      }
    } catch (error) {
      return brokenBy(error);
    } finally {
      await texts.return().catch(() => undefined);
    }
  }

  /** Keeps the id of a response that can be fetched. What that fails of, the answer tells. */
  async #note(step: number, attempt: number, responseId: string): Promise<void> {
    if (this.#dialect.lasting && responseId && responseId !== this.#responseId) {
      this.#responseId = responseId;
      await this.#turn.noteModel(step, attempt, responseId).catch(() => undefined);
    }
  }

  #discreet(outcome: ModelOutcome): ModelOutcome {
    if ("answer" in outcome) {
      return wholeIn(outcome);
    }
    const { error } = outcome.failure;
    const message = this.#dialect.discreet(error.message ?? "").slice(0, MOST_MESSAGE);
    const code = this.#dialect.discreet(error.code);
    return { failure: { ...outcome.failure, error: { ...error, code, message } } };
  }

  /** Tells what came of a call; gives what was heard, or the attempt to make next. */
  async #tell(
    open: Open,
    attempt: number,
    came: Came,
    again: () => Promise<Asked>,
  ): Promise<Heard | number> {
    const { outcome, usage, limits } = came;
    const { step } = open.step;
    let told: Told;
    try {
      told = await this.#turn.answerModel({ step, attempt, outcome, usage, limits });
    } catch (error) {
      const refused = "answer" in outcome ? refusalOf(error) : undefined;
      if (!refused) {
        throw error;
      }
      return this.#tell(open, attempt, { outcome: refused, usage, limits }, again);
    }
    if (told.disposition === Disposition.IGNORED_STALE) {
      return this.#tellAgain(came, again);
    }
    throwIfOver(told);
    return "answer" in outcome
      ? newlyHeard(open.step, outcome.answer, usage)
      : this.#next(told, outcome.failure);
  }

  /** The attempt that follows a failure, once it may be made. */
  async #next(told: Told, { error, final }: ModelFailure): Promise<number> {
    if (told.next === 0) {
      throw failTurn(error.code, error.message, { retryable: !final });
    }
    await sleep(told.wait ?? 0, this.#turn.signal);
    return told.next;
  }

  /**
   * The sidecar was away meanwhile, and the turn has another token: the round is asked for
   * again, and gets the answer that there is. What it consumed was counted before. Where the
   * request has something now that was said meanwhile, the answer is none to it.
   */
  async #tellAgain({ outcome, usage }: Came, again: () => Promise<Asked>): Promise<Heard | number> {
    const open = await again();
    const recorded = recordedOf(open);
    if (recorded) {
      return recorded;
    }
    const { step, attempt } = open.step;
    if ("failure" in outcome) {
      return attempt;
    }
    if (open.grown) {
      this.#responseId = "";
      return attempt;
    }
    const counted: Usage = { countedBefore: true };
    const told = await this.#turn.answerModel({ step, attempt, outcome, usage: counted });
    if (told.disposition === Disposition.IGNORED_STALE) {
      throw new PawlError("state", "the execution of the turn is over", { reason: "TURN_STALE" });
    }
    throwIfOver(told);
    return newlyHeard(open.step, outcome.answer, usage);
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

/** Bounds what of an endpoint's words is told. */
const MOST_MESSAGE = 4096;

/** Failures after which a response may still be made. */
const LOST = ["STREAM_TRUNCATED", "MODEL_UNREACHABLE", "MODEL_TIMEOUT"];

type Told = Awaited<ReturnType<Turn["answerModel"]>>;

/** The text of a turn that people watch, as far as it is known to stay. */
class Shown {
  readonly #turn: Turn;
  /** Bytes of rounds that are answered, and of all that was shown. */
  #kept = 0;
  #bytes = 0;
  #fault: { readonly error: unknown } | undefined;
  /** The first half of a character whose second one is yet to come. */
  #half = "";

  constructor(turn: Turn) {
    this.#turn = turn;
  }

  /** Shows a text. That it failed says nothing of the model, whose answer is recorded first. */
  async add(piece: string): Promise<void> {
    const all = this.#half + piece;
    const text = all.replace(/[\ud800-\udbff]$/, "");
    this.#half = all.slice(text.length);
    if (text) {
      this.#bytes += new TextEncoder().encode(text).length;
      await this.#try(() => this.#turn.output(text));
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
    this.#half = "";
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

/** The step of a round that is answered, or whose call is to be made. */
function openOf({ step, denial, maxAnswerBytes }: ModelRound): Open {
  if (!step) {
    throw over(
      `the call of the model was refused: ${denial?.code ?? ""}: ${denial?.message ?? ""}`,
    );
  }
  if (step.status !== StepStatus.OK && step.status !== StepStatus.PENDING) {
    const { code = "MODEL_ERROR", message = "the call came to nothing" } = step.error ?? {};
    throw failTurn(code, message, { retryable: !isFinal(code) });
  }
  return { step, maxBytes: maxAnswerBytes };
}

/** The answer that a round has by now. */
function recordedOf({ step }: Open): Heard | undefined {
  const { answer, usage = {} } = step.model ?? {};
  return step.status === StepStatus.OK && answer ? heardOf(step, answer, usage, true) : undefined;
}

/** An answer that came just now, as the record has it. */
function newlyHeard(step: Step, answer: ModelAnswer, usage: Usage): Heard {
  const { content, calls = [], provider, refusal = "" } = answer;
  const parts = partsOf(content).map((part) => plain(PartSchema, part));
  return heardOf(step, { parts, calls, provider, refusal }, usage, false);
}

type Words = Pick<Plain<Answered>, "parts" | "provider" | "refusal"> & {
  readonly calls: readonly ModelCall[];
};

function heardOf({ step }: Step, words: Words, usage: Usage, replayed: boolean): Heard {
  const { parts, calls, provider, refusal } = words;
  const own = calls.map(({ id, name, arguments: given }) => ({ id, name, arguments: given }));
  return { step, parts, calls: own, provider, refusal, usage, replayed };
}

/** What an answer is that the sidecar does not take: none; it was paid for all the same. */
function refusalOf(error: unknown): ModelOutcome | undefined {
  if (PawlError.is(error, "ANSWER_TOO_LARGE")) {
    return { failure: { error: { code: error.reason, message: error.message }, final: true } };
  }
  return PawlError.is(error) && error.kind === "request"
    ? unusable("ANSWER_INVALID", error.message)
    : undefined;
}

function throwIfOver(told: Told): void {
  if (told.disposition === Disposition.IGNORED_TERMINAL || told.ended) {
    throw over("the run has ended");
  }
}

function over(text: string): PawlError {
  return new PawlError("state", text, { reason: "RUN_TERMINAL" });
}
