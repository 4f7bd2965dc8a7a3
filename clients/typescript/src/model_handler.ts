/** Turns executed by a model, each of whose answers is a record. */

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
import type { ModelOutcome, ModelRound } from "./models.js";
import { type Plain, plain } from "./plain.js";
import type { Reply, Usage } from "./reply.js";
import { sleep } from "./retry.js";
import { type Heard, type Manner, Talk } from "./talk.js";
import type { Step, Turn, UntypedHandler } from "./turn.js";
import { partsOf, textOf } from "./values.js";

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
}

const MAX_ROUNDS = 16;

/** A turn handler. Throws a RangeError for options that make no sense. */
export function modelHandler(dialect: Dialect, options: ModelOptions): UntypedHandler {
  const { model, maxRounds = MAX_ROUNDS, chat, extra = {} } = options;
  if (!model) {
    throw new RangeError("model: a name, not empty");
  }
  if (!Number.isInteger(maxRounds) || maxRounds < 1) {
    throw new RangeError(`maxRounds: a whole number from 1 on, not ${maxRounds}`);
  }
  const manner = { model, maxRounds, chat, extra };
  return (turn) => new Execution(turn, dialect, manner).reply();
}

/** What came of a call of the model, and what it consumed. */
interface Came {
  readonly outcome: ModelOutcome;
  readonly usage: Usage;
}

/** A MODEL step that waits for its answer. */
interface Open {
  readonly step: Step;
  readonly maxBytes: number;
}

/** The execution of one turn. */
class Execution {
  readonly #turn: Turn;
  readonly #dialect: Dialect;
  readonly #talk: Talk;

  constructor(turn: Turn, dialect: Dialect, manner: Manner) {
    this.#turn = turn;
    this.#dialect = dialect;
    this.#talk = new Talk(turn, manner);
  }

  async reply(): Promise<Reply> {
    const talk = this.#talk;
    while (!talk.reply) {
      const calls = talk.heard(await this.#round());
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
    const again = async () => openOf(await this.#turn.requestModel(request));
    const open = await again();
    const { answer, usage } = open.step.model ?? {};
    if (open.step.status === StepStatus.OK && answer) {
      await this.#show(textOf(answer.parts));
      return heardOf(open.step, answer, usage ?? {}, true);
    }
    return this.#answer(open, again);
  }

  /** Makes the call until it is answered, or has used up its attempts. */
  async #answer(open: Open, again: () => Promise<Open>): Promise<Heard> {
    const { notBefore, deadline } = open.step.model ? { ...open.step, ...open.step.model } : {};
    await this.#until(notBefore);
    const allowedMs = deadline ? Math.max(1, deadline.getTime() - Date.now()) : undefined;
    for (let { attempt } = open.step; ; ) {
      const came = await this.#call(open, allowedMs);
      const next = await this.#tell(open, attempt, came, again);
      if (next === 0 && "answer" in came.outcome) {
        const { content, calls = [], provider, refusal = "" } = came.outcome.answer;
        const parts = partsOf(content).map((part) => plain(PartSchema, part));
        return heardOf(open.step, { parts, calls, provider, refusal }, came.usage, false);
      }
      attempt = next;
    }
  }

  /** Makes the call once, and shows the text as it comes in. */
  async #call({ maxBytes }: Open, allowedMs: number | undefined): Promise<Came> {
    const { signal } = this.#turn;
    const limit = allowedMs === undefined ? undefined : AbortSignal.timeout(allowedMs);
    const either = limit ? AbortSignal.any([signal, limit]) : signal;
    let outcome: ModelOutcome;
    let usage: Usage = {};
    try {
      const speech = await this.#dialect.start(this.#talk.ask(), either);
      outcome = await this.#listen(speech, maxBytes, either);
      ({ usage } = speech.draft);
    } catch (error) {
      outcome = failureOf(error);
    }
    signal.throwIfAborted();
    if (limit?.aborted && !("answer" in outcome)) {
      outcome = unusable("MODEL_TIMEOUT", `no whole answer within ${allowedMs} ms`);
    }
    return { outcome: this.#discreet(outcome), usage };
  }

  async #listen(speech: Speech, maxBytes: number, signal: AbortSignal): Promise<ModelOutcome> {
    const { draft, texts } = speech;
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
        await this.#show(value);
      }
    } catch (error) {
      if (error instanceof Unshown) {
        throw error.cause;
      }
      return brokenBy(error);
    } finally {
      await texts.return().catch(() => undefined);
    }
  }

  async #show(text: string): Promise<void> {
    if (text) {
      await this.#turn.output(text).catch((error: unknown) => {
        throw new Unshown("the text was not shown", { cause: error });
      });
    }
  }

  #discreet(outcome: ModelOutcome): ModelOutcome {
    if ("answer" in outcome) {
      return outcome;
    }
    const { error } = outcome.failure;
    const message = this.#dialect.discreet(error.message ?? "").slice(0, MOST_MESSAGE);
    return { failure: { ...outcome.failure, error: { ...error, message } } };
  }

  /** Tells what came of a call; gives the attempt to make next, 0 for an answer that counts. */
  async #tell(
    open: Open,
    attempt: number,
    { outcome, usage }: Came,
    again: () => Promise<Open>,
  ): Promise<number> {
    const { step } = open.step;
    const told = await this.#turn
      .answerModel({ step, attempt, outcome, usage })
      .catch((error: unknown) => this.#tooLarge(open, attempt, usage, error));
    if (told.disposition === Disposition.IGNORED_STALE) {
      return this.#tellAgain(outcome, again);
    }
    if (told.disposition === Disposition.IGNORED_TERMINAL || told.ended) {
      throw over("the run has ended");
    }
    if ("answer" in outcome) {
      return 0;
    }
    if (told.next === 0) {
      const { code, message } = outcome.failure.error;
      throw failTurn(code, message, { retryable: !outcome.failure.final });
    }
    await sleep(told.wait ?? 0, this.#turn.signal);
    return told.next;
  }

  /**
   * The sidecar was away meanwhile, and the turn has another token: the round is asked for
   * again, and gets the answer that there is. What it consumed was counted before.
   */
  async #tellAgain(outcome: ModelOutcome, again: () => Promise<Open>): Promise<number> {
    const { step } = await again();
    if (step.status !== StepStatus.PENDING || "failure" in outcome) {
      throw stale();
    }
    const told = await this.#turn.answerModel({
      step: step.step,
      attempt: step.attempt,
      outcome,
    });
    if (told.disposition === Disposition.IGNORED_STALE) {
      throw stale();
    }
    return 0;
  }

  /** An answer that is too large is none. */
  async #tooLarge({ step }: Open, attempt: number, usage: Usage, error: unknown): Promise<never> {
    if (!PawlError.is(error, "ANSWER_TOO_LARGE")) {
      throw error;
    }
    const fault = { code: error.reason, message: error.message };
    const outcome = { failure: { error: fault, final: true } };
    await this.#turn.answerModel({ step: step.step, attempt, outcome, usage });
    throw failTurn(fault.code, fault.message, { retryable: false });
  }

  async #until(moment: Date | undefined): Promise<void> {
    const left = moment ? moment.getTime() - Date.now() : 0;
    if (left > 0) {
      await sleep(left, this.#turn.signal);
    }
  }
}

/** Bounds what of an endpoint's words is told. */
const MOST_MESSAGE = 4096;

/** Showing a text failed, which says nothing of the model. */
class Unshown extends Error {}

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

type Words = Pick<Plain<Answered>, "parts" | "calls" | "provider" | "refusal">;

function heardOf({ step }: Step, words: Words, usage: Usage, replayed: boolean): Heard {
  const { parts, calls, provider, refusal } = words;
  const own = calls.map(({ id, name, arguments: given }) => ({ id, name, arguments: given }));
  return { step, parts, calls: own, provider, refusal, usage, replayed };
}

function over(text: string): PawlError {
  return new PawlError("state", text, { reason: "RUN_TERMINAL" });
}

function stale(): PawlError {
  return new PawlError("state", "the execution of the turn is over", { reason: "TURN_STALE" });
}
