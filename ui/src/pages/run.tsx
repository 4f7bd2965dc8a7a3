import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useSyncExternalStore } from "react";
import { useSearchParams } from "wouter";
import { get, runPath } from "../api/client";
import { useHistory } from "../api/history";
import type { RunFeed } from "../api/run_feed";
import type { Artifact, Graph, Run, RunBudgets, Waiting } from "../api/types";
import { Actions } from "../parts/actions";
import { Artifacts } from "../parts/artifacts";
import type { LinkState } from "../parts/connection_state";
import { EndNotice } from "../parts/end_notice";
import { countEdges } from "../parts/entry_edges";
import { isTerminal, pretty, when } from "../parts/format";
import { GraphView } from "../parts/graph_view";
import { Ledger } from "../parts/ledger";
import { LimitGauges } from "../parts/limit_gauges";
import { Failure, Loading } from "../parts/notices";
import { OlderPack } from "../parts/older_pack";
import { RecordSlider } from "../parts/record_slider";
import { RecordView } from "../parts/record_view";
import { RunHead } from "../parts/run_head";
import { RunTree } from "../parts/run_tree";
import { Tabs } from "../parts/tabs";
import { Timeline } from "../parts/timeline";
import { TimesView } from "../parts/times_view";
import { TurnView, turnOf } from "../parts/turn_view";
import { useFeed } from "../parts/use_feed";
import { useGraph, usePack } from "../parts/use_pack";
import { useThrottled } from "../parts/use_throttled";
import { useTitle } from "../parts/use_title";
import { Text } from "../parts/value";
import { isUnserved, useWaiting, WaitingNotice } from "../parts/waiting";

interface Snapshot {
  run: Run;
  artifacts?: Artifact[];
  budgets?: RunBudgets;
}

/** Shows one run: its records, its current state, and the possible actions. */
export function RunPage({ id }: { id: string }) {
  const feed = useFeed(id);
  const { run, problem, link, seq } = useSyncExternalStore(feed.subscribe, feed.state);
  useTitle(run ? `${run.state} · ${id.slice(-6)}` : "Run");
  if (problem && !run) {
    return (
      <main id="main">
        <Failure problem={problem} onRetry={() => void feed.open()} />
      </main>
    );
  }
  if (!run) {
    return (
      <main id="main">
        <Loading what="Loading the run" />
      </main>
    );
  }
  return <Opened feed={feed} run={run} link={link} last={seq} />;
}

interface OpenedProps {
  feed: RunFeed;
  run: Run;
  link: Parameters<typeof LinkState>[0]["link"];
  last: number;
}

function Opened({ feed, run, link, last }: OpenedProps) {
  const { live, selected, select } = usePlace(last);
  const graph = useGraph(run.pack.digest, run.agent);
  const pack = usePack(run.pack.digest);
  const snapshot = useSnapshot(run.runId, selected);
  const past = live ? run : (snapshot.data?.run ?? run);
  const artifacts = useMemo(() => snapshot.data?.artifacts ?? [], [snapshot.data]);
  const look = useCallback(() => void feed.look(), [feed]);
  const waiting = useWaiting(run);
  const unserved = isUnserved(waiting);
  const goes = !isTerminal(run.status) && !unserved;
  const visit = (state: string) => select(lastVisit(feed, state, selected) || selected);
  return (
    <main id="main" className="run-page">
      <RunHead run={run} link={isTerminal(run.status) ? "ended" : link} unserved={unserved}>
        <Actions
          run={run}
          seq={selected}
          graph={graph.data}
          document={pack.document}
          onStale={look}
        />
      </RunHead>
      <Notices run={run} waiting={waiting} onSeq={select} />
      <RecordSlider
        last={last}
        selected={selected}
        live={live}
        open={goes}
        onSelect={select}
        onLive={() => select(0)}
      />
      <div className="run-grid">
        <Pictured
          feed={feed}
          run={past}
          graph={graph.data}
          last={last}
          selected={selected}
          live={live && goes}
          onState={visit}
        />
        <Records feed={feed} last={last} selected={selected} live={live} onSelect={select} />
        <Details feed={feed} run={run} last={last} selected={selected} live={live} onSeq={select} />
        <ArtifactsCard
          runId={run.runId}
          artifacts={snapshot.data && artifacts}
          seq={selected}
          onSeq={select}
        />
        <UsageTotals
          run={past}
          document={pack.document}
          budgets={snapshot.data?.budgets}
          at={live ? undefined : (feed.record(selected)?.at ?? past.updatedAt)}
          onSeq={select}
        />
      </div>
    </main>
  );
}

interface NoticesProps {
  run: Run;
  waiting?: Waiting;
  onSeq: (seq: number) => void;
}

/** Shows why the run ended, or what it waits for. */
function Notices({ run, waiting, onSeq }: NoticesProps) {
  return (
    <>
      <EndNotice run={run} onSeq={onSeq} />
      <OlderPack run={run} page="/runs" />
      <WaitingNotice waiting={waiting} />
    </>
  );
}

/** Shows how much of its limits the run has used, money included. */
function UsageTotals({
  budgets,
  onSeq,
  ...gauges
}: Parameters<typeof LimitGauges>[0] & Parameters<typeof Ledger>[0]) {
  return (
    <section className="card gauges-card" aria-label="Guards and budgets">
      <h2>Budgets</h2>
      <LimitGauges {...gauges} />
      <Ledger run={gauges.run} budgets={budgets} onSeq={onSeq} />
    </section>
  );
}

/** The selected record, from the page's address; the newest if the address names none. */
function usePlace(last: number) {
  const [params, setParams] = useSearchParams();
  const wanted = Number(params.get("seq") ?? 0);
  const live = !(wanted >= 1 && wanted <= last);
  const selected = live ? last : wanted;
  const select = useCallback(
    (seq: number) => setParams(seq > 0 ? { seq: String(seq) } : {}, { replace: true }),
    [setParams],
  );
  return { live, selected, select };
}

function Records(props: Parameters<typeof Timeline>[0]) {
  return (
    <section className="card timeline-card" aria-label="Timeline">
      <h2>
        Records <span className="muted">{props.last}</span>
      </h2>
      <Timeline {...props} />
    </section>
  );
}

interface ArtifactsProps {
  runId: string;
  /** The artifacts at the record; undefined while they are being read. */
  artifacts: readonly Artifact[] | undefined;
  seq: number;
  onSeq: (seq: number) => void;
}

function ArtifactsCard({ runId, artifacts, seq, onSeq }: ArtifactsProps) {
  return (
    <section className="card artifacts-card" aria-label="Artifacts">
      <h2>
        Artifacts <span className="muted">as of record {seq}</span>
      </h2>
      {artifacts ? (
        <Artifacts runId={runId} artifacts={artifacts} seq={seq} onSeq={onSeq} />
      ) : (
        <Loading what="Loading the artifacts" />
      )}
    </section>
  );
}

interface PicturedProps {
  feed: RunFeed;
  /** The run at the selected record. */
  run: Run;
  graph: Graph | undefined;
  last: number;
  selected: number;
  live: boolean;
  onState: (state: string) => void;
}

/** Shows the run's state in its graph, and how often each edge was followed. */
function Pictured({ feed, run, graph, last, selected, live, onState }: PicturedProps) {
  const history = useHistory(run.runId, last, forcedOrExpired(graph, run));
  const counts = useMemo(
    () => countEdges(history.entries.filter((e) => e.seq <= selected)),
    [history.entries, selected],
  );
  return (
    <section className="card graph-card" aria-label="State graph">
      <h2>
        State{" "}
        <span className="muted" data-testid="state">
          {run.state}
        </span>
      </h2>
      {graph ? (
        <GraphView
          graph={graph}
          run={run}
          entry={feed.record(selected)}
          counts={counts}
          live={live}
          onState={onState}
        />
      ) : (
        <Loading what="Drawing the graph" />
      )}
    </section>
  );
}

interface DetailsProps {
  feed: RunFeed;
  run: Run;
  last: number;
  selected: number;
  live: boolean;
  onSeq: (seq: number) => void;
}

function Details({ feed, run, last, selected, live, onSeq }: DetailsProps) {
  const entry = feed.record(selected);
  return (
    <div className="card details-card">
      <Tabs
        label="Details"
        tabs={[
          [
            "Record",
            () =>
              entry ? (
                <RecordView entry={entry} last={last} onSeq={onSeq} />
              ) : (
                <Loading what="Loading the record" />
              ),
          ],
          [
            "Turn",
            () => (
              <TurnView
                runId={run.runId}
                turn={turnOf(entry, (seq) => feed.record(seq))}
                last={last}
                onSeq={onSeq}
              />
            ),
          ],
          [
            "Times",
            () => (
              <TimesView
                run={run}
                last={last}
                selected={selected}
                at={live ? undefined : entry?.at}
                onSeq={onSeq}
              />
            ),
          ],
          ["Family", () => <RunTree run={run} />],
          ["Start", () => <Started run={run} />],
        ]}
      />
    </div>
  );
}

/** Reads the run at a record; until it is read, the previous one is shown. */
function useSnapshot(id: string, seq: number) {
  const at = useThrottled(seq, 60);
  return useQuery({
    queryKey: ["snapshot", id, at],
    queryFn: ({ signal }) =>
      get<Snapshot>(runPath(id), { atSeq: at, includeArtifacts: true }, signal),
    enabled: at > 0,
    placeholderData: (before) => before,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });
}

/** Returns the last read record before `from` that entered a state; 0: none. */
function lastVisit(feed: RunFeed, state: string, from: number): number {
  for (let seq = from - 1; seq >= 1; seq--) {
    const entry = feed.record(seq);
    if (entry?.kind === "transition" && entry.body.toState === state) {
      return seq;
    }
  }
  return 0;
}

/** Whether edges may have been followed that the run's counts do not distinguish. */
const forcedOrExpired = (graph: Graph | undefined, run: Run): boolean =>
  (graph?.edges ?? []).some(
    (e) =>
      e.kind !== "EDGE_KIND_EVENT" &&
      (run.visits?.[e.fromState] ?? 0) > 0 &&
      (run.visits?.[e.toState] ?? 0) > 0,
  );

/** Shows the input and variables of the run's start. */
function Started({ run }: { run: Run }) {
  const request = useQuery({
    queryKey: ["variables", run.runId],
    queryFn: ({ signal }) =>
      get<{ variablesJson?: string }>(runPath(run.runId), { includeVariables: true }, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <div>
      <dl className="facts">
        <div>
          <dt>Entry</dt>
          <dd>
            {run.entry}
            {run.entryOverride ? ", entered in the middle by an admin" : ""}
          </dd>
        </div>
        <div>
          <dt>Pack</dt>
          <dd className="mono">{run.pack.digest}</dd>
        </div>
        {run.deadline ? (
          <div>
            <dt>Deadline</dt>
            <dd>{when(run.deadline)}</dd>
          </div>
        ) : null}
        {run.stateTimeoutAt ? (
          <div>
            <dt>State timeout</dt>
            <dd>{when(run.stateTimeoutAt)}</dd>
          </div>
        ) : null}
      </dl>
      <h4>Variables</h4>
      {request.data ? (
        <Text text={pretty(request.data.variablesJson) || "{}"} label="Variables" />
      ) : (
        <Loading />
      )}
    </div>
  );
}
