/** Where the calls of a program are recorded: in its open turn, or in a run that has completed. */

import { PawlError } from "./errors.js";
import { RecordKind, type StepResolved, StepStatus } from "./gen/pawl/v1/record_pb.js";
import type { AnswerModelResponse, StepOutcome } from "./gen/pawl/v1/run_pb.js";
import type { ModelAsk, ModelReport, ModelRound } from "./model_step.js";
import type { Plain } from "./plain_message.js";
import type { Run } from "./run.js";
import type { StepCall } from "./turn.js";

/** The calls of a program, as `Turn` makes them. */
export interface Journal {
  /** Aborted when this execution of the program is not needed any longer. */
  readonly signal: AbortSignal;
  requestModel(ask: ModelAsk): Promise<ModelRound>;
  answerModel(report: ModelReport): Promise<Plain<AnswerModelResponse>>;
  callEach(calls: readonly StepCall[]): readonly Promise<Plain<StepOutcome>>[];
}

type Answered = Plain<StepResolved>;

/** The records of a run that has completed. The program receives its answers and calls nothing. */
export class CompletedRun implements Journal {
  readonly signal = new AbortController().signal;
  readonly #runId: string;
  readonly #keys = new Map<number, string>();
  readonly #answers = new Map<string, Answered>();

  private constructor(runId: string) {
    this.#runId = runId;
  }

  /** Reads the records of a run. */
  static async of(run: Run, signal: AbortSignal | undefined): Promise<CompletedRun> {
    const made = new CompletedRun(run.id);
    const kinds = [RecordKind.STEP_REQUESTED, RecordKind.STEP_RESOLVED];
    for await (const { body } of run.records({ kinds, signal })) {
      if (body.case === "stepRequested") {
        made.#keys.set(body.value.step, body.value.key);
      } else if (body.case === "stepResolved" && body.value.next === 0) {
        made.#answers.set(made.#keys.get(body.value.step) ?? "", body.value);
      }
    }
    return made;
  }

  async requestModel({ key = "" }: ModelAsk): Promise<ModelRound> {
    const answered = this.#answer(key, "model call");
    const { step, ok, error, answer, usage } = answered;
    const status = ok ? StepStatus.OK : StepStatus.ERROR;
    const made = { step, key, status, error, model: { answer, usage } };
    return { key, step: made, replayed: true, includedMessages: [] } as unknown as ModelRound;
  }

  async answerModel(): Promise<never> {
    throw this.#over();
  }

  callEach(calls: readonly StepCall[]): readonly Promise<Plain<StepOutcome>>[] {
    return calls.map(async ({ tool, key = "", call }) => {
      const name = call ? `${this.#keys.get(call.modelStep)}/${call.index}` : key;
      const answered = this.#answer(name, `call of ${tool}`);
      const { step, ok, error, result } = answered;
      const status = ok ? StepStatus.OK : StepStatus.ERROR;
      const made = { step, key: name, tool, status, error, result };
      return { key: name, step: made } as unknown as Plain<StepOutcome>;
    });
  }

  #answer(key: string, what: string): Answered {
    const answered = this.#answers.get(key);
    if (!answered) {
      const text =
        `run ${this.#runId} has completed, and has no record of the ${what} ${key}: the program is ` +
        "not the one that it ran. Give another requestId for a new run";
      throw new PawlError("state", text, { reason: "RUN_CHANGED" });
    }
    return answered;
  }

  #over(): PawlError {
    const text = `run ${this.#runId} has completed`;
    return new PawlError("state", text, { reason: "RUN_TERMINAL" });
  }
}
