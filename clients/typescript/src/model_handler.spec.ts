/** What the loop of a model does when the sidecar was away meanwhile. */

import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { type Ask, type Dialect, Draft, ended, speech } from "./dialect.js";
import { StepStatus } from "./gen/pawl/v1/record_pb.js";
import {
  AnswerModelResponseSchema,
  Disposition,
  GetTurnResponseSchema,
  RequestModelResponseSchema,
} from "./gen/pawl/v1/run_pb.js";
import { modelHandler } from "./model_handler.js";
import type { ModelTold } from "./models.js";
import { plain } from "./plain.js";
import { Turn, type TurnHost } from "./turn.js";

class OneWord extends Draft<string> {
  #text = "";

  take(piece: string): string {
    this.#text += piece;
    return piece;
  }

  end() {
    return ended({ content: this.#text, finishReason: "stop" });
  }
}

/** A provider that is unavailable so often. */
class Scripted implements Dialect {
  readonly own = [];
  readonly format = "format";
  readonly lasting = false;
  readonly asked: Ask[] = [];

  constructor(private failures: number) {}

  async start(ask: Ask) {
    this.asked.push(ask);
    this.failures -= 1;
    if (this.failures >= 0) {
      throw Object.assign(new Error("away"), { status: 503 });
    }
    return speech(["Hello."], new OneWord());
  }

  discreet(text: string): string {
    return text;
  }
}

/** A holder whose first answer to what is told is that another execution has the turn. */
function restarted(told: ModelTold[], recorded: boolean): TurnHost {
  let requests = 0;
  return {
    output: async () => undefined,
    requestModel: async () => {
      requests += 1;
      const answer = { content: { case: "text" as const, value: "Recorded." } };
      const known = { status: StepStatus.OK, model: { answer: { parts: [answer] } } };
      const open = { status: StepStatus.PENDING, attempt: requests };
      const step = { step: 1, ...(recorded && requests > 1 ? known : open) };
      const made = create(RequestModelResponseSchema, { step, maxAnswerBytes: 1000n });
      return plain(RequestModelResponseSchema, made);
    },
    answerModel: async (given: ModelTold) => {
      told.push(given);
      const disposition = told.length > 1 ? Disposition.ACCEPTED : Disposition.IGNORED_STALE;
      const made = create(AnswerModelResponseSchema, { disposition });
      return plain(AnswerModelResponseSchema, made);
    },
  } as unknown as TurnHost;
}

test.each([
  ["a failure", 1, false, "Hello.", [1, 2], 2],
  ["an answer", 0, false, "Hello.", [1, 2], 1],
  ["an answer, when there is one by now", 0, true, "Recorded.", [1], 1],
])(
  "%s is told to a sidecar that was restarted",
  async (_, failures, recorded, text, attempts, calls) => {
    const told: ModelTold[] = [];
    const dialect = new Scripted(failures);
    const info = plain(GetTurnResponseSchema, create(GetTurnResponseSchema, { terminal: true }));
    const wanted = { signal: new AbortController().signal };
    const turn = new Turn(restarted(told, recorded), info, wanted);
    expect(await modelHandler(dialect, { model: "m" })(turn)).toMatchObject({ output: text });
    expect(told.map(({ attempt }) => attempt)).toEqual(attempts);
    expect(dialect.asked).toHaveLength(calls);
  },
);
