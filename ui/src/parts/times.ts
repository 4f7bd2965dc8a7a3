/** Computes from a run's records how its time was spent. */

import type { Entry } from "../api/types";

/** A visit, a tool call or a model call, with its time. */
export interface Stretch {
  kind: "visit" | "step" | "model";
  /** Name of the state, tool or model. */
  name: string;
  /** Number of the visit of the state, or of the step. */
  n: number;
  /** Seq of the record that began it. */
  seq: number;
  /** Unix milliseconds. */
  from: number;
  to: number;
  /** True: it has not ended. */
  open: boolean;
  failed: boolean;
}

/** All stretches of one name. */
export interface Share {
  name: string;
  count: number;
  failed: number;
  total: number;
  longest: number;
  open: boolean;
}

/** The visits and tool calls up to a record, in the order in which they began. */
export function stretchesOf(entries: readonly Entry[], last: number, now: number): Stretch[] {
  const all: Stretch[] = [];
  const steps = new Map<number, Stretch>();
  let visit: Stretch | undefined;
  const end = (stretch: Stretch | undefined, at: number) => {
    if (stretch?.open) {
      stretch.to = at;
      stretch.open = false;
    }
  };
  for (const { seq, at, kind, body } of entries) {
    if (seq > last) {
      break;
    }
    const time = Date.parse(at);
    const begin = (what: Stretch["kind"], name: string, n: number): Stretch => {
      const stretch = { kind: what, name, n, seq, from: time, to: now, open: true, failed: false };
      all.push(stretch);
      return stretch;
    };
    if (kind === "transition") {
      end(visit, time);
      visit = begin("visit", body.toState ?? "", body.visit ?? 1);
    } else if (kind === "ended") {
      for (const stretch of all) {
        end(stretch, time);
      }
    } else if (kind === "stepRequested" && body.step) {
      const what = body.kind === "STEP_KIND_MODEL" ? "model" : "step";
      steps.set(body.step, begin(what, body.tool ?? "", body.step));
    } else if ((kind === "stepResolved" && !body.next) || kind === "stepCancelled") {
      const step = steps.get(body.step ?? 0);
      end(step, time);
      if (step && (kind === "stepCancelled" || !body.ok)) {
        step.failed = true;
      }
    }
  }
  for (const stretch of all) {
    stretch.to = Math.max(stretch.to, stretch.from);
  }
  return all;
}

/** Sums by name, the longest first. */
export function sharesOf(all: readonly Stretch[], kind: Stretch["kind"]): Share[] {
  const shares = new Map<string, Share>();
  for (const { name, from, to, open, failed } of all.filter((s) => s.kind === kind)) {
    const share = shares.get(name) ?? {
      name,
      count: 0,
      failed: 0,
      total: 0,
      longest: 0,
      open: false,
    };
    share.count++;
    share.failed += failed ? 1 : 0;
    share.total += to - from;
    share.longest = Math.max(share.longest, to - from);
    share.open ||= open;
    shares.set(name, share);
  }
  return [...shares.values()].sort((a, b) => b.total - a.total);
}
