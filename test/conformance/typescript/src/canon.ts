/** Values of the client as the scenarios have them. */

import {
  type Part,
  PawlError,
  type Record as PawlRecord,
  RunStatus,
  StepKind,
  StepStatus,
  StepVerdict,
  textOf,
} from "pawl-client";
import { ArtifactMode, Cause, Disposition } from "pawl-client/v1";

/** Fields with words; `status` is a step's where there is a `step` beside it. */
const WORDS: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  cause: Cause,
  disposition: Disposition,
  kind: StepKind,
  mode: ArtifactMode,
  status: RunStatus,
  verdict: StepVerdict,
};

/** A value as JSON: fields in snake_case, words of enums, artifacts by their value. */
export function canon(value: unknown): unknown {
  if (value instanceof Uint8Array) {
    return { $bytes: Buffer.from(value).toString("base64") };
  }
  if (value instanceof Date) {
    return value.toISOString();
  }
  if (Array.isArray(value)) {
    return value.map(canon);
  }
  if (typeof value !== "object" || value === null) {
    return value ?? null;
  }
  if (isMessage(value)) {
    return { ...fields(value as unknown as Shape), text: textOf(value.parts) };
  }
  if (isPart(value)) {
    const { case: form, value: content } = value.content;
    return { [form]: form === "json" ? JSON.parse(String(content)) : given(content) };
  }
  if (isOneof(value)) {
    const { case: form, value: content } = value.content;
    return form === undefined ? {} : { [snake(form)]: canon(content) };
  }
  return isRecord(value) ? record(value) : fields(value as Shape);
}

type Shape = Readonly<Record<string, unknown>>;

function fields(from: Shape): Shape {
  const words =
    typeof from.step === "number" && "key" in from ? { ...WORDS, status: StepStatus } : WORDS;
  return Object.fromEntries(
    Object.entries(from).map(([name, value]) => {
      const table = words[name as keyof typeof words];
      const word = table && typeof value === "number" ? table[value] : undefined;
      const plain = GIVEN.includes(name) ? given(value) : canon(inSeconds(name, value));
      return [snake(name), word ?? plain];
    }),
  );
}

/** Durations, which are of milliseconds here, in seconds. */
function inSeconds(name: string, value: unknown): unknown {
  return name === "wait" && typeof value === "number" ? value / 1000 : value;
}

/** Fields whose values have names of the scenario's own, which stay as they are. */
const GIVEN = ["labels", "visits", "payload", "result", "value", "variables", "parameters"];

/** A value that a scenario gave. */
export function given(value: unknown): unknown {
  return value instanceof Uint8Array ? canon(value) : (value ?? null);
}

function isMessage(value: object): value is { role: string; parts: Part[] } {
  return "role" in value && "parts" in value;
}

function isPart(value: object): value is { content: { case: string; value: unknown } } {
  return "content" in value && "mediaType" in value;
}

/** A message of one oneof, such as ModelMessage. */
function isOneof(value: object): value is { content: { case?: string; value?: unknown } } {
  const [name, ...more] = Object.keys(value);
  return name === "content" && more.length === 0;
}

function isRecord(value: object): value is PawlRecord {
  return "prevSeq" in value && "body" in value;
}

function record({ seq, prevSeq, cause, principal, body }: PawlRecord): Shape {
  return {
    seq,
    prev_seq: prevSeq,
    cause: Cause[cause],
    principal,
    kind: body.case === undefined ? "UNSPECIFIED" : snake(body.case).toUpperCase(),
    body: canon(body.value),
  };
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** An error; one that the client made without a reason has its kind. */
export function fault(error: unknown): Shape {
  if (error instanceof PawlError) {
    const { message, metadata } = error;
    // A call that the program itself ended has no code of the sidecar's.
    const code = error.code || (error.kind === "cancelled" ? "CANCELLED" : "");
    return { code, reason: error.reason || (code ? "" : error.kind), message, metadata };
  }
  const known = error instanceof Error ? error : new Error(String(error));
  return { code: "", reason: known.name, message: known.stack ?? known.message, metadata: {} };
}
