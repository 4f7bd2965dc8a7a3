/** Reads a model call: its request, and every record about it. */

import { entryOf, get, kindsOf, runPath } from "./client";
import type { Entry, ModelAsked, WireRecord } from "./types";

const KINDS = kindsOf(
  "stepRequested",
  "stepResolved",
  "stepCancelled",
  "modelUpdated",
  "transition",
  "turnOpened",
  "ended",
);

/** Most records of one request, and of all requests: a turn may have many more. */
const PAGE = 500;
const MOST = 10_000;

export interface ModelRecords {
  requests: ModelAsked;
  /** Requests, answers and notices of the step, oldest first. */
  own: readonly Entry[];
  /** Records that request the tool calls of the answer, by the call's index. */
  calls: ReadonlyMap<number, Entry>;
}

export const requestOf = (run: string, step: number, signal: AbortSignal): Promise<ModelAsked> =>
  get<ModelAsked>(`${runPath(run)}/steps/${step}/model`, {}, signal);

/** Reads the records of a turn that are about one MODEL step. */
export async function modelRecords(
  run: string,
  request: ModelAsked,
  signal: AbortSignal,
): Promise<ModelRecords> {
  const { step, turnSeq } = request.step;
  const own: Entry[] = [];
  const calls = new Map<number, Entry>();
  let after = Number(turnSeq ?? 0);
  for (let read = 0; read < MOST; ) {
    const query = { kinds: KINDS, afterSeq: after, pageSize: PAGE };
    const page = await get<{ records?: WireRecord[]; nextPageToken?: string }>(
      `${runPath(run)}/transitions`,
      query,
      signal,
    );
    const entries = (page.records ?? []).map(entryOf);
    const end = entries.findIndex((e) => ["transition", "turnOpened", "ended"].includes(e.kind));
    for (const entry of end < 0 ? entries : entries.slice(0, end)) {
      const { body, kind } = entry;
      if (body.step === step) {
        own.push(entry);
      } else if (kind === "stepRequested" && typeof body.call === "object") {
        if (body.call.modelStep === step) {
          calls.set(body.call.index ?? 0, entry);
        }
      }
    }
    read += entries.length;
    after = entries.at(-1)?.seq ?? after;
    if (end >= 0 || !page.nextPageToken) {
      break;
    }
  }
  return { requests: request, own, calls };
}
