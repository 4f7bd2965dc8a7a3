/** Formats statuses, records and numbers for people. */

import type { Body, CallRef, Entry, Kind, Status, Usage } from "../api/types";

/** Returns a status without the prefix of its enum. */
export const statusOf = (wire: string): Status => wire.replace("RUN_STATUS_", "") as Status;

export const isTerminal = (wire: string): boolean =>
  !["RUNNING", "WAITING"].includes(statusOf(wire));

const STATUS_WORDS: Record<Status, string> = {
  RUNNING: "Running",
  WAITING: "Waiting",
  COMPLETED: "Completed",
  BUDGET_EXHAUSTED: "Budget used up",
  ESCALATED: "Escalated",
  FAILED: "Failed",
  CANCELLED: "Cancelled",
};

export const statusWord = (status: Status): string => STATUS_WORDS[status] ?? status;

const KIND_WORDS: Record<Kind | "unknown", string> = {
  transition: "Transition",
  inputReceived: "Input",
  turnOpened: "Turn opened",
  turnAssigned: "Turn assigned",
  turnCompleted: "Turn completed",
  turnFailed: "Turn failed",
  turnAbandoned: "Turn abandoned",
  turnSuspended: "Turn suspended",
  stepRequested: "Tool call",
  stepResolved: "Tool answer",
  stepRejected: "Tool refused",
  stepCancelled: "Tool cancelled",
  artifactsSet: "Artifacts",
  paused: "Paused",
  resumed: "Resumed",
  origin: "Forked",
  ended: "Ended",
  turnReady: "Turn ready",
  outputWritten: "Output",
  stepDelegated: "Delegated",
  noChange: "No change",
  modelUpdated: "Model call updated",
  budgetRaised: "Budget raised",
  steered: "Told",
  stopped: "Stopped",
  noticeAdded: "Notice",
  stepDecided: "Call decided",
  stepOutcomeUnknown: "Outcome unknown",
  compensationStarted: "Undoing effects",
  evaluated: "Evals",
  unknown: "Record",
};

/** Names of a step's records if the step is a model call. */
const MODEL_WORDS: Partial<Record<Kind | "unknown", string>> = {
  stepRequested: "Model asked",
  stepResolved: "Model answer",
  stepRejected: "Model refused",
  stepCancelled: "Model cancelled",
};

/** Whether a record belongs to a MODEL step. */
export const ofModel = ({ kind, body }: Pick<Entry, "kind" | "body">): boolean =>
  kind === "modelUpdated" || body.kind === "STEP_KIND_MODEL";

export const kindWord = (entry: Pick<Entry, "kind" | "body">): string =>
  (ofModel(entry) && MODEL_WORDS[entry.kind]) || KIND_WORDS[entry.kind];

/** Returns the model's call that a step makes; undefined: no model requested it. */
export const callOf = ({ call }: Body): CallRef | undefined =>
  typeof call === "object" ? call : undefined;

/** Returns the round that the key of a MODEL step names; other keys unchanged. */
export function roundWord(key: string | undefined): string {
  const round = /^(?:\d+\.)?model\/(\d+)$/.exec(key ?? "")?.[1];
  return round ? `round ${round}` : (key ?? "");
}

/** Formats consumption in one line, or with `bound` the most that may be consumed. */
export function usageWords(usage: Usage, bound = false): string {
  const of = (n: string | undefined, word: string) =>
    Number(n ?? 0) > 0 ? ` (${number(Number(n))} ${word})` : "";
  const cost = Number(usage.costMicroUsd ?? 0);
  const tokens = Number(usage.inputTokens ?? 0) + Number(usage.outputTokens ?? 0);
  return [
    `${number(Number(usage.inputTokens ?? 0))} in${of(usage.cachedTokens, "cached")}`,
    `${number(Number(usage.outputTokens ?? 0))} out${of(usage.reasoningTokens, "reasoning")}`,
    ...(cost > 0 || (tokens > 0 && !bound) ? [costOf(tokens, cost)] : []),
    ...(usage.toolCalls ? [`${usage.toolCalls} tool calls`] : []),
    ...(usage.estimated ? ["estimated"] : []),
  ].join(", ");
}

/** Summarizes a record of a MODEL step in one line. */
function modelSummary({ kind, body }: Entry): string {
  const name = `${body.tool ?? "call of a model"} #${body.step}`;
  switch (kind) {
    case "stepRequested": {
      const attempt = (body.attempt ?? 1) > 1 ? `, attempt ${body.attempt}` : "";
      return `${name}, ${roundWord(body.key)}${attempt}${body.requestChanged ? ", request changed" : ""}`;
    }
    case "stepResolved":
      return body.ok ? `${name} ${answerWords(body)}` : `${name} ${body.error?.code ?? "unknown"}`;
    case "stepRejected":
      return `${body.tool}: ${body.denial?.code ?? ""}`;
    case "stepCancelled":
      return `${name}: ${body.reason ?? ""}`;
    default:
      return `${name}: ${noticeText(body)}`;
  }
}

/** Returns the text of an answer, or the tools that it calls. */
function answerWords({ answer }: Body): string {
  const calls = (answer?.calls ?? []).map((c) => c.name || "a tool without a name").join(", ");
  const text = answer?.parts?.find((p) => p.text)?.text ?? answer?.refusal ?? "";
  return calls ? `calls ${calls}` : text || (answer?.finishReason ?? "");
}

const noticeText = (body: Body): string =>
  body.requestChanged
    ? "request changed, the recorded answer counts"
    : body.usage
      ? "an answer came too late"
      : `response ${body.responseId ?? ""}`;

/** Describes when a steering message takes effect. */
export const whenWord = (when: string | undefined): string =>
  (when ?? "STEER_WHEN_NEXT_MODEL_CALL")
    .replace("STEER_WHEN_", "")
    .toLowerCase()
    .replaceAll("_", " ");

/** Describes a decision about a call. */
export const verdictWord = (verdict: string | undefined): string =>
  (verdict ?? "").replace("STEP_VERDICT_", "").toLowerCase().replaceAll("_", " ");

/** Describes the new limits of a raised budget. */
function raisedWords(body: Body): string {
  const cost = Number(body.maxCostMicroUsd ?? 0);
  const tokens = Number(body.maxTokens ?? 0);
  return [
    ...(cost !== Number(body.previousMaxCostMicroUsd ?? 0) ? [`to ${dollars(cost)}`] : []),
    ...(tokens !== Number(body.previousMaxTokens ?? 0) ? [`to ${number(tokens)} tokens`] : []),
  ].join(", ");
}

/** Describes how many evals passed, and why the others did not. */
function evaluatedWords({ results = [] }: Body): string {
  const others = results
    .filter((r) => !r.passed)
    .map((r) =>
      r.error
        ? `; ${r.id} has no score: ${r.error}`
        : `; ${r.id} ${r.score ?? 0}: ${r.explanation ?? ""}`,
    );
  return `${results.length - others.length} of ${results.length} evals passed${others.join("")}`;
}

/** What tokens came to: those without a cost are of a model without a price. */
export const costOf = (tokens: number, micro: number): string =>
  micro === 0 && tokens > 0 ? "no price" : dollars(micro);

/** What a record says, in one line. */
export function summary(entry: Entry): string {
  const { kind, body } = entry;
  if (ofModel(entry)) {
    return modelSummary(entry);
  }
  switch (kind) {
    case "transition":
      return body.fromState
        ? `${body.fromState} → ${body.toState} (${body.event})`
        : `→ ${body.toState}`;
    case "inputReceived":
      return body.queued ? "queued for the next turn" : (body.parts?.[0]?.text ?? "parts");
    case "turnOpened":
      return body.state ?? "";
    case "turnAssigned":
      return `${body.assigned?.worker ?? "worker"}, delivery ${body.assigned?.delivery ?? 1}`;
    case "turnCompleted":
      return body.event ? `event ${body.event}` : (body.output?.[0]?.text ?? "without an event");
    case "turnFailed":
      return `attempt ${body.attempt}: ${body.error?.code ?? ""} ${body.error?.message ?? ""}`;
    case "turnAbandoned":
    case "stepCancelled":
      return body.reason ?? "";
    case "turnSuspended":
      return `waits for step ${(body.pending ?? []).join(", ")}`;
    case "stepRequested":
      return `${body.tool} #${body.step}${body.delegation ? ", to an agent" : ""}`;
    case "stepResolved":
      return `${body.tool} #${body.step} ${body.ok ? "ok" : (body.error?.code ?? "unknown")}${body.unknown ? ", may have happened" : ""}`;
    case "stepOutcomeUnknown":
      return `${body.tool} #${body.step} ${body.error?.code ?? ""}, #${body.by} asks`;
    case "stepRejected":
      return `${body.tool}: ${body.denial?.code ?? ""}`;
    case "artifactsSet":
      return (body.artifactsWritten ?? []).map((w) => w.name).join(", ");
    case "stepDecided":
      return `${body.tool} #${body.step}: ${verdictWord(body.verdict)}${body.reason ? `, ${body.reason}` : ""}`;
    case "steered":
      return `${whenWord(body.when)}: ${body.text ?? ""}`;
    case "noticeAdded":
      return `${body.code ?? ""}: ${body.text ?? ""}`;
    case "budgetRaised":
      return `${raisedWords(body)}${body.reason ? `: ${body.reason}` : ""}`;
    case "stopped":
    case "paused":
    case "resumed":
      return body.note ?? "";
    case "origin":
      return `from ${body.runId} at ${body.seq}`;
    case "outputWritten":
      return body.piece?.parts?.[0]?.text ?? body.piece?.name ?? "";
    case "stepDelegated":
      return `${body.tool} #${body.step}${body.question?.length ? " asks" : ""}`;
    case "evaluated":
      return evaluatedWords(body);
    case "noChange":
      return `${body.call ?? "a call"} changed nothing`;
    case "ended":
      return `${statusWord(statusOf(body.status ?? ""))}: ${body.reason ?? ""}${body.event ? `, ${body.event} was lost` : ""}`;
    default:
      return body.turnSeq ? `turn ${body.turnSeq}` : "";
  }
}

const count = new Intl.NumberFormat("en", { useGrouping: true });
export const number = (n: number): string => count.format(n).replaceAll(",", "\u202f");

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB"];
  let i = 0;
  let value = n;
  while (value >= 1024 && i < units.length - 1) {
    value /= 1024;
    i++;
  }
  return `${i === 0 ? value : value.toFixed(value < 10 ? 1 : 0)} ${units[i]}`;
}

export function dollars(micro: number): string {
  return `$${(micro / 1e6).toFixed(micro < 1e6 ? 4 : 2)}`;
}

/** Formats a duration as "3 h 5 min", with at most two units. */
export function span(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) {
    return `${s} s`;
  }
  if (s < 3600) {
    return `${Math.floor(s / 60)} min ${s % 60 ? `${s % 60} s` : ""}`.trim();
  }
  if (s < 86_400) {
    return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  }
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** Formats a duration, to the millisecond if it is short. */
export const truncate = (ms: number): string =>
  ms < 1_000 ? `${Math.round(ms)} ms` : ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : span(ms);

export function ago(at: string | undefined, now: number): string {
  if (!at) {
    return "";
  }
  const ms = now - Date.parse(at);
  return ms < 5_000 ? "just now" : `${span(ms).split(" ").slice(0, 2).join(" ")} ago`;
}

const clock = new Intl.DateTimeFormat("en-GB", {
  year: "numeric",
  month: "2-digit",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

export function when(at: string | undefined): string {
  return at ? clock.format(new Date(at)).replace(",", "") : "";
}

/** Formats the time of day to the millisecond, for records in quick succession. */
export function timeOf(at: string): string {
  const d = new Date(at);
  return `${d.toTimeString().slice(0, 8)}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}

/** Formats JSON with line breaks; other text is unchanged. */
export function pretty(json: string | undefined): string {
  if (!json) {
    return "";
  }
  try {
    // Numbers beyond 2^53 would lose digits, so such text is shown unchanged.
    return /\d{16,}/.test(json) ? json : JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
