/** Reads the events of one run, and builds its history from them. */

import { EventSource } from "./event_source.js";
import type { FollowOptions, StreamReader } from "./follow.js";
import { RecordKind } from "./gen/pawl/v1/record_pb.js";
import type { StreamTransitionsResponse } from "./gen/pawl/v1/run_pb.js";
import type { Json } from "./plain_message.js";
import { withJson } from "./printable.js";
import type { CallResult, HistoryMessage, MessageEvent, RunEvent } from "./run_events.js";
import { StreamPosition } from "./stream_position.js";

/** Where to begin to read, and how long to wait for a lost connection. */
export interface EventsOptions extends FollowOptions {
  /**
   * `cursor` of the last event that the program has processed. Default: begin at the first event.
   */
  readonly after?: string;
  /** False: ends at the newest record. Default true: ends with the run. */
  readonly follow?: boolean;
}

const KINDS = Object.values(RecordKind).filter(
  (kind): kind is RecordKind => typeof kind === "number" && kind !== RecordKind.UNSPECIFIED,
);

/**
 * Reads the events of one run. It holds one item of the stream; the sender waits while the program
 * processes it.
 */
export class EventReader implements StreamReader<readonly RunEvent[]> {
  /** Seq of the last record to read. Undefined means no bound. */
  until: number | undefined;
  readonly #namespace: string;
  readonly #source: EventSource;
  readonly #position: StreamPosition;
  readonly #follow: boolean;
  #caughtUp = false;

  constructor({ namespace, runId }: { namespace: string; runId: string }, options: EventsOptions) {
    this.#namespace = namespace;
    this.#source = new EventSource(runId, options.after);
    this.#position = new StreamPosition(runId, BigInt(this.#source.afterSeq));
    this.#follow = options.follow ?? true;
  }

  /** Whether everything up to `until` was read. */
  get over(): boolean {
    const { until } = this;
    return until !== undefined && (this.#caughtUp || this.#position.afterSeq >= BigInt(until));
  }

  request(): ReturnType<StreamReader<readonly RunEvent[]>["request"]> {
    const { turnSeq, delivery, offset } = this.#source.included;
    return {
      namespace: this.#namespace,
      runId: this.#position.runId,
      kinds: KINDS,
      afterSeq: this.#position.afterSeq,
      follow: this.#follow,
      statuses: true,
      output: this.#follow,
      outputAfter: { turnSeq: BigInt(turnSeq), delivery, offset: BigInt(offset) },
    };
  }

  read({ item, status }: StreamTransitionsResponse): readonly RunEvent[] | undefined {
    this.#caughtUp = item.case === "heartbeat";
    if (item.case === "record") {
      const fresh = this.#position.accept(item.value);
      return fresh ? this.#source.record(item.value, status).map(withJson) : undefined;
    }
    return item.case === "output" ? this.#source.chunk(item.value) : undefined;
  }
}

/** Returns the messages of the events; the answer of each tool follows the call that it answers. */
export async function historyOf(read: AsyncIterable<RunEvent>): Promise<HistoryMessage[]> {
  const report = new Conversation();
  for await (const event of read) {
    report.take(event);
  }
  return report.messages();
}

interface Entry {
  readonly message: HistoryMessage;
  readonly step: number;
  /** Results by the id of the call. */
  readonly results: Map<string, CallResult>;
}

class Conversation {
  #entries: Entry[] = [];

  take(event: RunEvent): void {
    if (event.kind === "tool_result" && event.call) {
      const { callId, tool, ok, result, error } = event;
      this.#answer({ callId, tool, ok, result, error }, event);
    } else if (event.kind === "message" && event.role === "tool") {
      this.#answer(toReport(event), event);
    } else if (event.kind === "message") {
      const { role, parts, calls, refusal, seq, turnSeq, step } = event;
      const message = { role, parts, calls, results: [], refusal, seq, turnSeq };
      this.#entries.push({ message, step, results: new Map() });
    } else if (event.kind === "turn_ended" && event.rejectedStep > 0) {
      // The next attempt asks the model again for that round.
      this.#entries = this.#entries.filter(({ step }) => step !== event.rejectedStep);
    }
  }

  messages(): HistoryMessage[] {
    return this.#entries
      .flatMap(({ message, results }) => {
        const inOrder = message.calls.flatMap(({ id }) => results.get(id) ?? []);
        const none = { parts: [], calls: [], refusal: "" };
        return inOrder.length > 0
          ? [message, { ...message, ...none, role: "tool", results: inOrder }]
          : [message];
      })
      .map(withJson);
  }

  #answer(result: CallResult, { seq, turnSeq }: RunEvent): void {
    const request = this.#entries.findLast(({ message }) => {
      return message.calls.some(({ id }) => id === result.callId);
    });
    if (request) {
      request.results.set(result.callId, result);
      return;
    }
    const nothing = { parts: [], calls: [], refusal: "" };
    const message = { role: "tool", ...nothing, results: [result], seq, turnSeq };
    this.#entries.push({ message, step: 0, results: new Map() });
  }
}

/** Returns the answer to a call that made no step: {"error": {"code", "message"}}, or a result. */
function toReport({ parts, callId }: MessageEvent): CallResult {
  const json = parts.find(({ content }) => content.case === "json")?.content.value;
  const text = parts.map(({ content }) => (content.case === "text" ? content.value : "")).join("");
  const value = (json === undefined ? text : JSON.parse(json as string)) as Json;
  const { error } = (value ?? {}) as { error?: { code?: unknown; message?: unknown } };
  if (typeof error === "object" && error !== null) {
    const { code = "", message = "" } = error;
    const fault = { code: String(code), message: String(message), trace: "" };
    return { callId, tool: "", ok: false, result: undefined, error: fault };
  }
  return { callId, tool: "", ok: true, result: value, error: undefined };
}
