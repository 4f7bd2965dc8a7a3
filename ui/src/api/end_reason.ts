/** Describes why a run ended without success, and finds the record of the error. */

import { entryOf, get, kindsOf, runPath } from "./client";
import type { Entry, Fault, Run, WireRecord } from "./types";

const KINDS = kindsOf("turnFailed", "stepResolved", "ended");
/** How many records before the end are searched for the error. */
const NEAR = 100;

export interface EndReason {
  /** The reason in one sentence. */
  words: string;
  /** The reported error that led to the end. */
  error: Fault | undefined;
  /** Seq of the record that has the error, or else of the one that ended the run. */
  seq: number;
}

/** Reads the records of a run's end and describes its reason. */
export async function endReason(run: Run, signal: AbortSignal): Promise<EndReason> {
  const afterSeq = Math.max(0, Number(run.seq) - NEAR);
  const page = await get<{ records?: WireRecord[] }>(
    `${runPath(run.runId)}/transitions`,
    { kinds: KINDS, afterSeq, pageSize: NEAR },
    signal,
  );
  return endingOf(run.reason ?? "", (page.records ?? []).map(entryOf));
}

/** Describes the reason of an end, with the record of the error that led to it. */
export function endingOf(reason: string, entries: readonly Entry[]): EndReason {
  const end = entries.findLast((e) => e.kind === "ended");
  const cause = causeOf(reason, entries);
  return {
    words: `${sentence(reason)}${lost(end)}`,
    error: cause?.body.error,
    seq: cause?.seq ?? end?.seq ?? 0,
  };
}

/** Returns the last record of an error of the kind that the reason names. */
function causeOf(reason: string, entries: readonly Entry[]): Entry | undefined {
  const [name, of] = split(reason);
  if (name === "turn_failed") {
    return entries.findLast((e) => e.kind === "turnFailed" && e.body.error);
  }
  if (name === "tool_error" || name === "model_error") {
    return entries.findLast(
      (e) => e.kind === "stepResolved" && e.body.error && (of === "" || e.body.tool === of),
    );
  }
  return undefined;
}

const WORDS: Record<string, (of: string) => string> = {
  turn_failed: () => "The turn failed, and no attempt is left.",
  turn_undeliverable: () =>
    "The turn was sent to workers ten times, and each time the worker's connection broke.",
  protocol_violation: () => "An answer arrived for a call that was never made.",
  tool_error: (of) => `A call of the tool ${of} failed.`,
  model_error: (of) => `A call of the model ${of} failed.`,
  approval_timeout: (of) => `A call of the tool ${of} was held, and no decision came in time.`,
  outcome: (of) => `The run completed the state ${of}, which the pack marks as failed.`,
};

function sentence(reason: string): string {
  const [name, of] = split(reason);
  const words = WORDS[name];
  if (words) {
    return words(of);
  }
  return of === "" ? `The budget ${name} was used up.` : `The budget ${name} of ${of} was used up.`;
}

function lost(end: Entry | undefined): string {
  const { event, intendedState } = end?.body ?? {};
  if (!event) {
    return "";
  }
  return ` The event ${event}${intendedState ? `, which leads to ${intendedState},` : ""} was not taken.`;
}

function split(reason: string): [string, string] {
  const at = reason.indexOf(":");
  return at < 0 ? [reason, ""] : [reason.slice(0, at), reason.slice(at + 1)];
}
