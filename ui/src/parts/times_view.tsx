import { useMemo } from "react";
import { useHistory } from "../api/history";
import type { Run } from "../api/types";
import { isTerminal, number, truncate } from "./format";
import { Empty, Failure, Loading } from "./notices";
import { type Share, type Stretch, sharesOf, stretchesOf } from "./times";
import { useNow } from "./use_now";

/** How many of the newest stretches are drawn one by one. */
const DRAWN = 200;

interface Props {
  run: Run;
  /** Seq of the newest record. */
  last: number;
  /** Seq of the selected record, and its time if it is not the newest. */
  selected: number;
  at: string | undefined;
  onSeq: (seq: number) => void;
}

/** Shows how the time was spent: by state, model and tool, and one by one. */
export function TimesView({ run, last, selected, at, onSeq }: Props) {
  const history = useHistory(run.runId, last, true);
  const ticking = useNow(1_000);
  const end = at ?? (isTerminal(run.status) ? run.updatedAt : undefined);
  const now = end === undefined ? ticking : Date.parse(end);
  const all = useMemo(
    () => stretchesOf(history.entries, selected, now),
    [history.entries, selected, now],
  );
  if (history.problem) {
    return <Failure problem={history.problem} />;
  }
  if (history.to === 0) {
    return <Loading what="Loading the times" />;
  }
  if (all.length === 0) {
    return <Empty title="No state was visited yet" />;
  }
  return (
    <div className="times">
      <Shares title="By state" unit="visits" shares={sharesOf(all, "visit")} />
      <Shares title="By model" unit="calls" shares={sharesOf(all, "model")} />
      <Shares title="By tool" unit="calls" shares={sharesOf(all, "step")} />
      <h3 className="times-head">
        One by one{" "}
        <span className="muted">
          {all.length > DRAWN ? `the last ${DRAWN} of ${number(all.length)}` : ""}
        </span>
      </h3>
      <Stretches all={all.slice(-DRAWN)} onSeq={onSeq} />
      {history.cut ? <p className="muted">Later records are not counted.</p> : null}
    </div>
  );
}

function Shares({ title, unit, shares }: { title: string; unit: string; shares: Share[] }) {
  const whole = Math.max(1, ...shares.map((s) => s.total));
  if (shares.length === 0) {
    return null;
  }
  return (
    <>
      <h3 className="times-head">{title}</h3>
      <table className="shares">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" className="figure">
              {unit}
            </th>
            <th scope="col" className="figure">
              Time
            </th>
            <th scope="col" className="figure">
              Longest
            </th>
            <th scope="col">
              <span className="hidden">Share</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {shares.map((share) => (
            <tr key={share.name}>
              <th scope="row">
                {share.name}
                {share.open ? <span className="muted"> still open</span> : null}
              </th>
              <td className="figure">
                {number(share.count)}
                {share.failed > 0 ? <span className="bad">, {share.failed} failed</span> : null}
              </td>
              <td className="figure">{truncate(share.total)}</td>
              <td className="figure">{truncate(share.longest)}</td>
              <td className="share">
                <div className="meter" aria-hidden="true">
                  <div style={{ width: `${(share.total / whole) * 100}%` }} />
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/** Shows bars over one time axis; each links to the record that began it. */
function Stretches({ all, onSeq }: { all: readonly Stretch[]; onSeq: (seq: number) => void }) {
  const from = Math.min(...all.map((s) => s.from));
  const whole = Math.max(1, Math.max(...all.map((s) => s.to)) - from);
  return (
    <ol className="stretches">
      {all.map((s) => (
        <li key={`${s.kind} ${s.seq} ${s.n}`} className={s.kind}>
          <button type="button" className="link" onClick={() => onSeq(s.seq)}>
            {s.name} {s.kind === "visit" ? `visit ${s.n}` : `#${s.n}`}
          </button>
          <span className="stretch" aria-hidden="true">
            <span
              className={s.failed ? "failed" : undefined}
              style={{
                left: `${((s.from - from) / whole) * 100}%`,
                width: `max(3px, ${((s.to - s.from) / whole) * 100}%)`,
              }}
            />
          </span>
          <span className="figure">
            {truncate(s.to - s.from)}
            {s.open ? "…" : ""}
          </span>
        </li>
      ))}
    </ol>
  );
}
