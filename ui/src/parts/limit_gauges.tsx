import type { Document } from "../api/document";
import { useHistory } from "../api/history";
import type { Run } from "../api/types";
import { bytes, isTerminal, number, ofModel, span } from "./format";
import { useNow } from "./use_now";

interface Gauge {
  name: string;
  value: number;
  /** 0: no limit. */
  limit: number;
  show: (n: number) => string;
}

interface Props {
  run: Run;
  document: Document;
  /** Time of the selected record, if it is not the newest. */
  at: string | undefined;
}

/** Shows how much of its limits except money a run has used, at a record or until now. */
export function LimitGauges({ run, document, at }: Props) {
  const now = useNow(1_000);
  const steps = useSteps(run, boundOf(document, "max_steps") > 0);
  return (
    <ul className="gauges">
      {gaugesOf(run, document, at === undefined ? now : Date.parse(at), steps).map((g) => (
        <li key={g.name}>
          <div className="gauge-head">
            <span>{g.name}</span>
            <span className="figures">
              {g.show(g.value)}
              <span className="muted">{g.limit > 0 ? ` of ${g.show(g.limit)}` : ", no limit"}</span>
            </span>
          </div>
          {g.limit > 0 ? <Meter gauge={g} /> : null}
        </li>
      ))}
    </ul>
  );
}

/** Counts the run's steps of tools and agents; model calls have numbers too, and do not count. */
function useSteps(run: Run, wanted: boolean): number {
  const last = Number(run.seq);
  const { entries } = useHistory(run.runId, last, wanted);
  return entries.filter((e) => e.kind === "stepRequested" && e.seq <= last && !ofModel(e)).length;
}

function boundOf(document: Document, name: string): number {
  const bound = document.workflow?.engine?.x_pawl?.[name];
  return typeof bound === "number" ? bound : 0;
}

function Meter({ gauge: { name, value, limit, show } }: { gauge: Gauge }) {
  const share = Math.min(1, value / limit);
  return (
    <div
      className={`meter${share >= 1 ? " full" : share >= 0.8 ? " near" : ""}`}
      role="meter"
      aria-label={name}
      aria-valuemin={0}
      aria-valuemax={limit}
      aria-valuenow={Math.min(value, limit)}
      aria-valuetext={`${show(value)} of ${show(limit)}`}
    >
      <div style={{ width: `${share * 100}%` }} />
    </div>
  );
}

function gaugesOf(run: Run, document: Document, now: number, steps: number): Gauge[] {
  const budget = document.workflow?.engine?.budget ?? {};
  const bound = (name: string) => boundOf(document, name);
  const all: Gauge[] = [
    {
      name: "Visits",
      value: run.totalVisits ?? 0,
      limit: budget.max_total_visits ?? 0,
      show: number,
    },
    {
      name: "Tool calls",
      value: run.toolCalls ?? 0,
      limit: budget.max_tool_calls ?? 0,
      show: number,
    },
    {
      name: "Wall time",
      value: wallTime(run, (budget.max_wall_time_sec ?? 0) * 1000, now),
      limit: (budget.max_wall_time_sec ?? 0) * 1000,
      show: span,
    },
    { name: "Steps", value: steps, limit: bound("max_steps"), show: number },
    { name: "Reframes", value: run.reframes ?? 0, limit: bound("max_reframes"), show: number },
    {
      name: "Transitions",
      value: run.transitions ?? 0,
      limit: run.limits?.maxTransitions ?? 0,
      show: number,
    },
    {
      name: "Artifacts",
      value: Number(run.artifactBytes ?? 0),
      limit: Number(run.limits?.maxRunArtifactBytes ?? 0),
      show: bytes,
    },
    {
      name: "Conversation",
      value: Number(run.messageBytes ?? 0),
      limit: Number(run.limits?.maxMessageBytes ?? 0),
      show: bytes,
    },
  ];
  // A gauge with neither a limit nor a value is hidden.
  return all.filter((g) => g.limit > 0 || g.value > 0);
}

function wallTime(run: Run, limit: number, now: number): number {
  if (isTerminal(run.status)) {
    now = Math.min(now, Date.parse(run.updatedAt ?? ""));
  } else if (run.deadline && limit > 0) {
    // The deadline moves while the run waits, if waiting does not count.
    return Math.max(0, Math.min(limit, limit - (Date.parse(run.deadline) - now)));
  }
  return Math.max(0, now - Date.parse(run.createdAt ?? "")) || 0;
}
