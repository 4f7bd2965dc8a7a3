import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "wouter";
import { get } from "../api/client";
import { asProblem } from "../api/problem";
import type { Account } from "../api/types";
import { DetailRow } from "../parts/detail_row";
import { dollars, number, span, when } from "../parts/format";
import { LedgerMeter } from "../parts/ledger";
import { Empty, Failure, Loading } from "../parts/notices";
import { useNow } from "../parts/use_now";
import { useThrottled } from "../parts/use_throttled";
import { useTitle } from "../parts/use_title";

/** Accounts change without a record that this page could follow, so it reads them again. */
const EVERY_MS = 2_000;

/** Most accounts of one answer; a name prefix selects among more. */
const SHOWN = 200;

interface AccountList {
  accounts?: Account[];
  nextPageToken?: string;
}

/**
 * Shows the operator's accounts over runs: settled, reserved and refused amounts, and the window.
 */
export function BudgetsPage() {
  useTitle("Budgets");
  const [params, setParams] = useSearchParams();
  const name = params.get("name") ?? "";
  const request = useAccounts(useThrottled(name, 150));
  const accounts = request.data?.accounts ?? [];
  return (
    <main id="main" className="budgets-page">
      <div className="page-head">
        <h1>Budgets</h1>
        <span className="muted" role="status">
          {request.data
            ? `${accounts.length}${request.data.nextPageToken ? "+" : ""} accounts over runs`
            : ""}
        </span>
        <label className="inline">
          <span>Name begins with</span>
          <input
            type="search"
            placeholder="tenant=acme/"
            value={name}
            onChange={(e) =>
              setParams(e.target.value ? { name: e.target.value } : {}, { replace: true })
            }
          />
        </label>
      </div>
      {request.error ? (
        <Failure problem={asProblem(request.error)} onRetry={() => void request.refetch()} />
      ) : null}
      {request.isPending ? <Loading what="Loading the accounts" /> : null}
      {request.data && accounts.length === 0 ? <None name={name} /> : null}
      <div className="account-list">
        {accounts.map((a) => (
          <AccountCard key={a.name} account={a} />
        ))}
      </div>
    </main>
  );
}

const useAccounts = (namePrefix: string) =>
  useQuery({
    queryKey: ["budgets", namePrefix],
    queryFn: ({ signal }) =>
      get<AccountList>("/v1/budgets", { namePrefix, pageSize: SHOWN }, signal),
    refetchInterval: EVERY_MS,
    placeholderData: (before) => before,
    staleTime: 0,
  });

function None({ name }: { name: string }) {
  return name ? (
    <Empty title="No account matches">The filter matches the start of a name.</Empty>
  ) : (
    <Empty title="There are no accounts">
      An operator defines them with <code>pawl serve --budgets FILE</code>: what all runs with a
      label may spend in a day, a month, or ever. What one run may spend stands on its page.
    </Empty>
  );
}

function AccountCard({ account: a }: { account: Account }) {
  const now = useNow(1_000);
  const cost = {
    name: "Cost",
    settled: Number(a.settledCostMicroUsd ?? 0),
    reserved: Number(a.reservedCostMicroUsd ?? 0),
    lent: 0,
    limit: Number(a.maxCostMicroUsd ?? 0),
    show: dollars,
    tokens: { settled: Number(a.settledTokens ?? 0), reserved: Number(a.reservedTokens ?? 0) },
  };
  const tokens = {
    name: "Tokens",
    settled: Number(a.settledTokens ?? 0),
    reserved: Number(a.reservedTokens ?? 0),
    lent: 0,
    limit: Number(a.maxTokens ?? 0),
    show: number,
  };
  const refused = Number(a.refused ?? 0);
  return (
    <section className="card" aria-label={a.name}>
      <h2 className="mono">{a.name}</h2>
      <ul className="gauges">
        <LedgerMeter sum={cost} />
        <LedgerMeter sum={tokens} />
      </ul>
      <dl className="facts">
        <DetailRow name="Window">
          {a.windowStart ? `since ${when(a.windowStart)}` : "for ever"}
        </DetailRow>
        {a.windowEnd ? (
          <DetailRow name="Rolls over">
            {when(a.windowEnd)}{" "}
            <span className="muted">in {span(Date.parse(a.windowEnd) - now)}</span>
          </DetailRow>
        ) : null}
        <DetailRow name="Refused">
          {refused > 0 ? (
            <span className="bad">{number(refused)} since the sidecar began</span>
          ) : (
            "nothing"
          )}
        </DetailRow>
      </dl>
    </section>
  );
}
