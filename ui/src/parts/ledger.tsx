import { Link } from "wouter";
import { kindsOf } from "../api/client";
import { useHistory } from "../api/history";
import type { AccountShare, Entry, Run, RunBudgets } from "../api/types";
import { DetailRow } from "./detail_row";
import { costOf, dollars, number } from "./format";

/** Records about money, besides those about consumption. */
const KINDS = kindsOf("stepRejected", "noticeAdded", "budgetRaised");

/** Share of a budget from which the models receive a notice. */
export const NOTICE = 0.8;

export interface Sum {
  name: string;
  settled: number;
  /** The part of `settled` that was not reported completely. */
  estimated?: number;
  reserved: number;
  /** The part of `reserved` that is leased to agents. */
  lent: number;
  /** 0: no limit. */
  limit: number;
  show: (n: number) => string;
  /** Of a cost, its tokens: without a cost they have no price. */
  tokens?: { settled: number; reserved: number };
}

/** Shows how much of a limit is settled and reserved. */
export function LedgerMeter({ sum, notice }: { sum: Sum; notice?: boolean }) {
  const { name, settled, reserved, lent, limit, show } = sum;
  const of = (n: number, tokens = 0) => (tokens > 0 ? costOf(tokens, n) : show(n));
  const words = [
    `${of(settled, sum.tokens?.settled)} settled${sum.estimated ? `, ${show(sum.estimated)} of it estimated` : ""}`,
    `${of(reserved, sum.tokens?.reserved)} reserved${lent > 0 ? ` (${show(lent)} leased to agents)` : ""}`,
  ].join(", ");
  const part = (n: number) => `${Math.min(100, (n / limit) * 100)}%`;
  return (
    <li className="ledger">
      <div className="gauge-head">
        <span>{name}</span>
        <span className="figures">
          {of(settled + reserved, (sum.tokens?.settled ?? 0) + (sum.tokens?.reserved ?? 0))}
          <span className="muted">{limit > 0 ? ` of ${show(limit)}` : ", no limit"}</span>
        </span>
      </div>
      {limit > 0 ? (
        <div
          className={`meter${settled + reserved >= limit ? " full" : settled + reserved >= NOTICE * limit ? " near" : ""}`}
          role="meter"
          aria-label={name}
          aria-valuemin={0}
          aria-valuemax={limit}
          aria-valuenow={Math.min(settled + reserved, limit)}
          aria-valuetext={`${words}, of ${show(limit)}`}
        >
          <div style={{ width: part(settled) }} />
          <div className="reserved" style={{ width: part(reserved) }} />
          {notice ? <span className="notice-mark" style={{ left: `${NOTICE * 100}%` }} /> : null}
        </div>
      ) : null}
      <p className="muted ledger-words">{words}</p>
    </li>
  );
}

interface Props {
  /** The run at the selected record. */
  run: Run;
  budgets: RunBudgets | undefined;
  onSeq: (seq: number) => void;
}

/** Shows what a run may spend, has spent and has reserved, and the accounts that count it. */
export function Ledger({ run, budgets, onSeq }: Props) {
  const sums = sumsOf(run, budgets).filter(
    (s) =>
      s.limit > 0 ||
      s.settled + s.reserved > 0 ||
      (s.tokens && s.tokens.settled + s.tokens.reserved > 0),
  );
  const last = Number(run.seq);
  const { entries, problem } = useHistory(run.runId, last, sums.length > 0, KINDS);
  if (sums.length === 0) {
    return null;
  }
  const seen = entries.filter((e) => e.seq <= last);
  return (
    <section className="money" aria-label="Money">
      <h3>Money</h3>
      <ul className="gauges">
        {sums.map((sum) => (
          <LedgerMeter key={sum.name} sum={sum} notice />
        ))}
      </ul>
      <dl className="facts">
        {problem ? (
          <DetailRow name="Records">could not be read: {problem.message}</DetailRow>
        ) : null}
        <DetailRow name="Notice at 80 %">
          <At
            entries={seen.filter((e) => e.kind === "noticeAdded" && e.body.code === "BUDGET_LOW")}
            none="not sent"
            onSeq={onSeq}
          />
        </DetailRow>
        <DetailRow name="Refused">
          <At entries={seen.filter(refusedForMoney)} none="nothing" onSeq={onSeq} />
        </DetailRow>
        <DetailRow name="Raised">
          <At entries={seen.filter((e) => e.kind === "budgetRaised")} none="never" onSeq={onSeq} />
        </DetailRow>
        {run.leased ? (
          <DetailRow name="Lease">of the run that started it, which has the rest</DetailRow>
        ) : null}
        <Accounts shares={run.accounts ?? []} />
      </dl>
    </section>
  );
}

function sumsOf(run: Run, budgets: RunBudgets | undefined): Sum[] {
  return [
    {
      name: "Cost",
      settled: Number(run.costMicroUsd ?? 0),
      reserved: Number(run.reservedCostMicroUsd ?? 0),
      lent: Number(run.lentCostMicroUsd ?? 0),
      limit: Number(budgets?.maxCostMicroUsd ?? 0),
      show: dollars,
      tokens: { settled: Number(run.tokens ?? 0), reserved: Number(run.reservedTokens ?? 0) },
    },
    {
      name: "Tokens",
      settled: Number(run.tokens ?? 0),
      estimated: Number(run.estimatedTokens ?? 0),
      reserved: Number(run.reservedTokens ?? 0),
      lent: Number(run.lentTokens ?? 0),
      limit: Number(budgets?.maxTokens ?? 0),
      show: number,
    },
  ];
}

/** Whether a budget of the run or an account of the operator refused a step. */
const refusedForMoney = ({ kind, body }: Entry): boolean =>
  kind === "stepRejected" &&
  ["MAX_COST_USD", "MAX_TOKENS", "ACCOUNT_EXHAUSTED"].includes(body.denial?.code ?? "");

interface AtProps {
  entries: readonly Entry[];
  none: string;
  onSeq: (seq: number) => void;
}

/** Shows how often an event happened, with a link to its newest record. */
function At({ entries, none, onSeq }: AtProps) {
  const newest = entries.at(-1);
  if (!newest) {
    return none;
  }
  return (
    <>
      {entries.length > 1 ? `${number(entries.length)} times, last ` : ""}
      <button type="button" className="link" onClick={() => onSeq(newest.seq)}>
        at #{newest.seq}
      </button>
      {newest.body.denial ? `, ${newest.body.tool}: ${newest.body.denial.code}` : ""}
    </>
  );
}

/** Shows the operator's accounts that count the run. */
function Accounts({ shares }: { shares: readonly AccountShare[] }) {
  if (shares.length === 0) {
    return null;
  }
  return (
    <DetailRow name="Counted in">
      <ul>
        {shares.map((s) => (
          <li key={s.name}>
            <Link href={`/budgets?name=${encodeURIComponent(s.name)}`}>{s.name}</Link>{" "}
            <span className="muted">{shareWords(s)}</span>
          </li>
        ))}
      </ul>
    </DetailRow>
  );
}

const shareWords = (s: AccountShare): string => {
  const settled = Number(s.settledTokens ?? 0);
  const reserved = Number(s.reservedTokens ?? 0);
  return (
    `${costOf(settled, Number(s.settledCostMicroUsd ?? 0))} and ${number(settled)} tokens settled, ` +
    `${costOf(reserved, Number(s.reservedCostMicroUsd ?? 0))} and ${number(reserved)} reserved`
  );
};
