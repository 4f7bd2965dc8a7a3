import { useQuery, useQueryClient } from "@tanstack/react-query";
import {
  useCallback,
  useDeferredValue,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { Link, useSearchParams } from "wouter";
import { get } from "../api/client";
import { merge, NO_FILTER, type Row, type RunFilter, RunList } from "../api/run_list";
import { type Found, searchRuns, shortened } from "../api/run_search";
import { STATUSES } from "../api/types";
import { useMay } from "../parts/caller";
import { LinkState } from "../parts/connection_state";
import { number, statusOf, statusWord } from "../parts/format";
import { Empty, Failure } from "../parts/notices";
import { Filters } from "../parts/run_filters";
import { RunTable } from "../parts/run_table";
import { Sparkline, useRate } from "../parts/sparkline";
import { useAllRecords } from "../parts/use_live";
import { useThrottled } from "../parts/use_throttled";
import { useTitle } from "../parts/use_title";

interface Counts {
  counts: { status: string; runs?: string }[];
}

/** Shows all runs, newest first, kept up to date while the page is open. */
export function RunsPage() {
  useTitle("Runs");
  const [filter, setFilter] = useFilter();
  const list = useList(filter);
  const state = useSyncExternalStore(list.subscribe, list.state);
  const [search, setSearch] = useState("");
  const typed = useDeferredValue(search.trim());
  const wanted = typed.toLowerCase();
  const request = useSearch(filter, typed);
  const rows = useMemo(() => {
    const here = found(state.rows, wanted);
    // Listed rows are kept up to date; rows of the search stay as they were found.
    return request.rows.length > 0 ? merge(request.rows, here) : here;
  }, [state.rows, wanted, request.rows]);
  const [rate, count] = useRate();
  const counts = useCounts();
  const link = useAllRecords((entries) => {
    count(entries.filter((e) => e.kind === "transition").length);
    list.apply(entries);
    counts.again();
  });
  const more = useCallback(() => void list.more(), [list]);
  const filtered = wanted !== "" || Object.values(filter).some((v) => v !== "" && v !== 0);
  return (
    <main id="main" className="runs">
      <Head link={link} rate={rate} />
      <StatusChips
        counts={counts.byStatus}
        chosen={filter.status}
        onChoose={(status) => setFilter({ ...filter, status })}
      />
      <Filters filter={filter} onChange={setFilter} search={search} onSearch={setSearch} />
      {state.problem ? (
        <Failure problem={state.problem} onRetry={() => void list.reload()} />
      ) : null}
      <RunTable
        rows={rows}
        complete={state.complete && !request.busy}
        loading={state.loading || request.busy}
        failed={state.problem !== undefined}
        onMore={more}
        empty={
          <Nothing
            filtered={filtered}
            onClear={() => {
              setFilter(NO_FILTER);
              setSearch("");
            }}
          />
        }
      />
      <p className="foot muted" role="status">
        {footnote(rows.length, state.rows.length, state.complete, wanted, counts.total, request)}
      </p>
    </main>
  );
}

interface HeadProps {
  link: Parameters<typeof LinkState>[0]["link"];
  rate: Parameters<typeof Sparkline>[0]["values"];
}

function Head({ link, rate }: HeadProps) {
  const may = useMay();
  return (
    <div className="page-head">
      <h1>Runs</h1>
      <LinkState link={link} />
      <Sparkline values={rate} what="transitions" />
      {may("runs:write") ? (
        <Link href="/start" className="button primary">
          Start a run
        </Link>
      ) : null}
    </div>
  );
}

function Nothing({ filtered, onClear }: { filtered: boolean; onClear: () => void }) {
  return filtered ? (
    <Empty title="No run matches">
      <button type="button" className="button" onClick={onClear}>
        Clear the filters
      </button>
    </Empty>
  ) : (
    <Empty title="No runs yet">
      Start one: <code>client.run("my-pack", executor)</code>, or <code>pawl demo</code>.
    </Empty>
  );
}

function footnote(
  shown: number,
  loaded: number,
  complete: boolean,
  wanted: string,
  total: number,
  request: Search,
): string {
  if (wanted !== "") {
    const how = complete ? "" : " that were looked at so far";
    const more = request.more ? "; more match, narrow it down" : "";
    return `${number(shown)} found in ${number(loaded)} runs${how}${request.rows.length > 0 && !complete ? ", and by the sidecar in all" : ""}${more}`;
  }
  return complete
    ? `${number(loaded)} runs`
    : `${number(loaded)} loaded, ${number(total)} runs in all`;
}

function found(rows: readonly Row[], wanted: string): readonly Row[] {
  if (wanted === "") {
    return rows;
  }
  const id = shortened(wanted);
  return rows.filter((row) =>
    id
      ? row.id.toLowerCase().startsWith(id[0]) && row.id.toLowerCase().endsWith(id[1])
      : `${row.id} ${row.pack}@${row.version} ${row.state} ${row.status} ${row.reason} ${row.labels}`
          .toLowerCase()
          .includes(wanted),
  );
}

interface Search extends Found {
  busy: boolean;
}

/** Searches all runs of the sidecar, including those that the page has not read. */
function useSearch(filter: RunFilter, wanted: string): Search {
  const text = useThrottled(wanted, 150);
  const request = useQuery({
    queryKey: ["search", text, filter],
    queryFn: ({ signal }) => searchRuns(text, filter, signal),
    enabled: text !== "",
    staleTime: 2_000,
  });
  const expired = wanted !== text || (text !== "" && request.isPending);
  return {
    rows: wanted === text && text !== "" ? (request.data?.rows ?? NO_ROWS) : NO_ROWS,
    more: request.data?.more ?? false,
    busy: wanted !== "" && expired,
  };
}

const NO_ROWS: readonly Row[] = [];

/** Keeps the filter in the page's address, so that a link can share it. */
function useFilter(): [RunFilter, (next: RunFilter) => void] {
  const [params, setParams] = useSearchParams();
  const filter = useMemo(
    () => ({
      pack: params.get("pack") ?? "",
      state: params.get("state") ?? "",
      status: params.get("status") ?? "",
      reason: params.get("reason") ?? "",
      label: params.get("label") ?? "",
      within: Number(params.get("within") ?? 0) || 0,
    }),
    [params],
  );
  const set = (next: RunFilter) => {
    const kept = Object.entries(next).filter(([, v]) => v !== "" && v !== 0);
    setParams(new URLSearchParams(kept.map(([k, v]) => [k, String(v)])), { replace: true });
  };
  return [filter, set];
}

function useList(filter: RunFilter): RunList {
  const list = useMemo(() => new RunList(filter), [filter]);
  useEffect(() => {
    void list.more();
  }, [list]);
  return list;
}

function useCounts(): { byStatus: Map<string, number>; total: number; again: () => void } {
  const queries = useQueryClient();
  const request = useQuery({
    queryKey: ["counts"],
    queryFn: ({ signal }) => get<Counts>("/v1/runs:count", {}, signal),
    staleTime: 0,
  });
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const retry = useCallback(() => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      void queries.invalidateQueries({ queryKey: ["counts"] });
    }, 300);
  }, [queries]);
  const byStatus = new Map(
    (request.data?.counts ?? []).map((c) => [statusOf(c.status) as string, Number(c.runs ?? 0)]),
  );
  return { byStatus, total: [...byStatus.values()].reduce((a, b) => a + b, 0), again: retry };
}

function StatusChips({
  counts,
  chosen,
  onChoose,
}: {
  counts: Map<string, number>;
  chosen: string;
  onChoose: (status: string) => void;
}) {
  const total = [...counts.values()].reduce((a, b) => a + b, 0);
  const chips: [string, string, number][] = [["", "All", total]];
  for (const status of STATUSES) {
    chips.push([status, statusWord(status), counts.get(status) ?? 0]);
  }
  return (
    <fieldset className="chips">
      <legend className="hidden">Status</legend>
      {chips.map(([value, word, n]) => (
        <button
          type="button"
          key={value}
          className={`chip ${value.toLowerCase()}`}
          aria-pressed={chosen === value}
          onClick={() => onChoose(chosen === value ? "" : value)}
        >
          {word} <span className="count">{number(n)}</span>
        </button>
      ))}
    </fieldset>
  );
}
