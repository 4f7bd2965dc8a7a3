/** Reads the records of a run as a conversation. */

import { ALL_KINDS, entryOf, get, runPath } from "./client";
import type { Body, Entry, Fault, Part, WireRecord } from "./types";

/** The record that an item begins with. */
interface Place {
  runId: string;
  seq: number;
}

/** One message, tool call or event of a conversation. */
export type Item =
  | (Place & { kind: "user"; parts: readonly Part[]; queued: boolean })
  | (Place & { kind: "agent"; parts: readonly Part[] })
  | (Place & { kind: "note"; text: string; bad: boolean })
  | Call;

/** A call of a tool or of an agent, with everything that is known of it. */
export interface Call extends Place {
  kind: "call";
  step: number;
  tool: string;
  payloadJson: string;
  /** True: an agent is called. */
  agent: boolean;
  /** The decision of a person, or of the pack's time limit. */
  decided?: Body;
  /** Its answer; undefined: none has arrived. */
  outcome?: { ok: boolean; json: string; error?: Fault | undefined };
  /** What the called agent asks. */
  question?: readonly Part[] | undefined;
}

export interface Conversation {
  items: readonly Item[];
  /** Seq up to which all turns are over: output of such a turn is in the items. */
  closed: number;
  /** Text of the open turn that is in the items. */
  spoken: string;
  /** The record of which the run is a fork. */
  origin: Place | undefined;
  /** The called agent that asks and has no answer yet. */
  asking: Call | undefined;
}

const textOf = (parts: readonly Part[]): string => parts.map((p) => p.text ?? "").join("");

/** Returns the conversation of a run's records, which are in order. */
export function conversationOf(entries: readonly Entry[]): Conversation {
  const reader = new Reader();
  for (const entry of entries) {
    reader.read(entry);
  }
  const { items, closed, spoken } = reader;
  const asking = items.findLast((i): i is Call => i.kind === "call" && i.question !== undefined);
  const first = entries[0];
  const { runId = "", seq = "0" } = first?.kind === "origin" ? first.body : {};
  const origin = runId ? { runId, seq: Number(seq) } : undefined;
  return { items, closed, spoken, asking, origin };
}

/** Records of a source that are shown, and sources of sources. */
const RECORDS = 1_000;
const DEPTH = 5;

/** Reads what was said before a fork, in its source and the sources of that. */
export async function itemsBefore(
  origin: Place,
  signal: AbortSignal,
  depth = DEPTH,
): Promise<readonly Item[]> {
  const entries: Entry[] = [];
  let afterSeq = Math.max(0, origin.seq - RECORDS);
  while (afterSeq < origin.seq) {
    const page = await get<{ records?: WireRecord[] }>(
      `${runPath(origin.runId)}/transitions`,
      { kinds: ALL_KINDS, afterSeq, pageSize: origin.seq - afterSeq },
      signal,
    );
    const read = (page.records ?? []).map(entryOf);
    entries.push(...read);
    afterSeq = read.at(-1)?.seq ?? origin.seq;
  }
  const source = conversationOf(entries);
  // A call that was open is requested again by the fork.
  const own = source.items.filter((i) => i.kind !== "call" || i.outcome);
  return source.origin && depth > 0
    ? [...(await itemsBefore(source.origin, signal, depth - 1)), ...own]
    : own;
}

/** Returns the text of the open turn that is in no record yet. */
export function liveText(
  { closed, spoken }: Conversation,
  live: { turnSeq: number; text: string } | undefined,
): string {
  if (!live || live.turnSeq <= closed) {
    return "";
  }
  return live.text.startsWith(spoken) ? live.text.slice(spoken.length) : live.text;
}

class Reader {
  readonly items: Item[] = [];
  closed = 0;
  spoken = "";
  #at: Place = { runId: "", seq: 0 };

  read({ kind, runId, seq, body }: Entry): void {
    this.#at = { runId, seq };
    switch (kind) {
      case "inputReceived":
        this.#answered(body.step);
        this.#user(body.parts ?? [], body.queued === true);
        break;
      case "steered":
        this.#user([{ text: body.text ?? "" }], false);
        break;
      case "turnOpened":
        this.#begin(seq - 1);
        break;
      case "transition":
        this.#begin(seq - 1);
        if (body.fromState) {
          this.#note(`${body.fromState} → ${body.toState} (${body.event || "limit"})`);
        }
        break;
      case "turnCompleted":
        this.#completed(body);
        break;
      case "turnAbandoned":
        this.#begin(Number(body.turnSeq ?? 0));
        break;
      case "turnFailed":
        this.#note(`Attempt ${body.attempt ?? 1} failed: ${faultText(body.error)}`, true);
        break;
      case "noticeAdded":
        this.#note(`${body.code ?? ""} ${body.text ?? ""}`);
        break;
      case "paused":
      case "resumed":
      case "stopped":
        this.#note(`The run was ${kind}${body.note ? `: ${body.note}` : ""}.`);
        break;
      case "origin":
        this.#note("A fork goes on from here.");
        break;
      default:
        this.#step(kind, body);
    }
  }

  #step(kind: Entry["kind"], body: Body): void {
    const call = this.#call(body.step);
    switch (kind) {
      case "stepRequested":
        this.#requested(body, call);
        break;
      case "stepResolved":
        this.#resolved(body, call);
        break;
      case "stepRejected":
        this.#note(
          `The call of ${body.tool} was refused: ${faultText(body.denial)}${mendOf(body)}`,
          true,
        );
        break;
      case "stepCancelled":
        if (call) {
          call.outcome = { ok: false, json: "", error: { code: body.reason ?? "CANCELLED" } };
        }
        break;
      case "stepDecided":
        if (call) {
          call.decided = body;
        }
        break;
      case "stepDelegated":
        if (call) {
          call.question = body.question?.length ? body.question : undefined;
        }
        break;
    }
  }

  #requested(body: Body, call: Call | undefined): void {
    if (call) {
      // A further attempt of the same call.
      delete call.outcome;
    } else if (body.kind !== "STEP_KIND_MODEL") {
      this.items.push({
        ...this.#at,
        kind: "call",
        step: body.step ?? 0,
        tool: body.tool ?? "",
        payloadJson: body.payloadJson ?? "",
        agent: body.delegation === true,
      });
    }
  }

  #resolved(body: Body, call: Call | undefined): void {
    if (call) {
      call.outcome = { ok: body.ok === true, json: body.resultJson ?? "", error: body.error };
      call.question = undefined;
    } else if (body.answer && body.ok) {
      const { parts = [], refusal } = body.answer;
      this.spoken += textOf(parts);
      this.#agent(refusal ? [...parts, { text: refusal }] : parts);
    } else if (body.kind === "STEP_KIND_MODEL" && !body.ok) {
      this.#note(`The model failed: ${faultText(body.error)}${mendOf(body)}`, true);
    }
  }

  #completed(body: Body): void {
    this.#begin(Number(body.turnSeq ?? 0));
    const last = this.items.at(-1);
    const said = last?.kind === "agent" ? textOf(last.parts) : undefined;
    const output = body.output ?? [];
    // A model's last answer is mostly the output of its turn.
    if (said === undefined || said !== textOf(output)) {
      this.#agent(output);
    }
  }

  /** Begins a new turn: those up to a record are over. */
  #begin(closed: number): void {
    this.closed = Math.max(this.closed, closed);
    this.spoken = "";
    for (const item of this.items) {
      if (item.kind === "user") {
        item.queued = false;
      }
    }
  }

  #user(parts: readonly Part[], queued: boolean): void {
    if (parts.length > 0) {
      this.items.push({ ...this.#at, kind: "user", parts, queued });
    }
  }

  #agent(parts: readonly Part[]): void {
    if (parts.some((p) => p.text !== "")) {
      this.items.push({ ...this.#at, kind: "agent", parts });
    }
  }

  #note(text: string, bad = false): void {
    this.items.push({ ...this.#at, kind: "note", text: text.trim(), bad });
  }

  #call(step: number | undefined): Call | undefined {
    return this.items.findLast((i): i is Call => i.kind === "call" && i.step === step);
  }

  #answered(step: number | undefined): void {
    const call = step ? this.#call(step) : undefined;
    if (call) {
      call.question = undefined;
    }
  }
}

const faultText = (fault: { code?: string; message?: string } | undefined): string =>
  [fault?.code, fault?.message].filter(Boolean).join(" ") || "no reason was given";

/** What a developer can do about the usual errors. */
const MENDS: Record<string, string> = {
  MODEL_UNAUTHORIZED: "Set the model's key: PAWL_MODEL_KEY_NAME, or key_file in the models file.",
  MODEL_UNREACHABLE: "Check the address of the model (--model NAME=URL).",
  MODEL_TIMEOUT: "Check the address of the model (--model NAME=URL).",
  MODEL_RATE_LIMITED: "The provider limits the calls; the call is tried again after a pause.",
  TOOL_NOT_ALLOWED: "Allow the tool: pawl serve --allow-tool NAME.",
};

function mendOf({ error, denial }: Body): string {
  const mend = MENDS[error?.code ?? denial?.code ?? ""];
  return mend ? `. ${mend}` : "";
}
