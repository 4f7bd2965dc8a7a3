import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { get, post, runPath } from "../api/client";
import { conversationOf, itemsBefore, liveText } from "../api/conversation";
import { asProblem, Problem } from "../api/problem";
import type { RunFeed } from "../api/run_feed";
import type { Artifact, Entry, Pack, PackRef, Run, WorkerList } from "../api/types";
import { EventButtons } from "../parts/actions";
import { Artifacts } from "../parts/artifacts";
import { Badge } from "../parts/badge";
import { useMay } from "../parts/caller";
import { ChatLog } from "../parts/chat_log";
import { Composer } from "../parts/composer";
import { LinkState } from "../parts/connection_state";
import { EndNotice } from "../parts/end_notice";
import { dollars, isTerminal, number, statusOf } from "../parts/format";
import { Empty, Failure, Loading } from "../parts/notices";
import { OlderPack } from "../parts/older_pack";
import { OWN, refOf, VariableFields } from "../parts/start_form";
import { useBottom } from "../parts/use_bottom";
import { useFeed } from "../parts/use_feed";
import { useGraph, usePack } from "../parts/use_pack";
import { useTitle } from "../parts/use_title";
import { givenOf, variablesOf } from "../parts/variables";
import { isUnserved, useWaiting, WaitingNotice } from "../parts/waiting";

/** Number of records that are shown of a long run. */
const SHOWN = 1_000;

/** Talks with a pack: a message starts a run, further messages go to that run. */
export function ChatPage({ id }: { id?: string }) {
  useTitle("Chat");
  return id ? <RunChat id={id} /> : <NewChat />;
}

/** Selects the pack of a new conversation. */
function NewChat() {
  const [params, setParams] = useSearchParams();
  const may = useMay();
  const packs = useQuery({
    queryKey: ["packs"],
    queryFn: ({ signal }) => get<{ packs?: Pack[] }>("/v1/packs", { pageSize: 1000 }, signal),
    staleTime: 0,
    // A developer saves a pack in an editor and comes back.
    refetchOnWindowFocus: true,
  });
  const runnable = (packs.data?.packs ?? []).filter((p) => p.entry || p.agents?.length);
  const wanted = params.get("pack") ?? "";
  const chosen =
    runnable.find((p) => refOf(p) === wanted || (p.id === wanted && p.isDefault)) ??
    runnable.find((p) => p.isDefault) ??
    runnable[0];
  return (
    <main id="main" className="chat">
      <div className="chat-head">
        <h1>Chat</h1>
        {chosen && runnable.length > 1 ? (
          <label className="inline">
            with
            <select
              value={refOf(chosen)}
              onChange={(e) => setParams({ pack: e.target.value }, { replace: true })}
            >
              {runnable.map((p) => (
                <option key={refOf(p)}>{refOf(p)}</option>
              ))}
            </select>
          </label>
        ) : null}
      </div>
      {packs.error ? (
        <Failure problem={asProblem(packs.error)} onRetry={() => void packs.refetch()} />
      ) : null}
      {packs.isPending ? <Loading what="Reading packs" /> : null}
      {packs.data && !chosen ? (
        <Empty title="No pack can be run">
          Create one with <code>pawl init my-agent</code>, or register one with{" "}
          <code>pawl packs register my.pack.yaml</code>.
        </Empty>
      ) : null}
      {chosen && !may("runs:write") ? (
        <Empty title="Your token cannot start runs">The scope runs:write is missing.</Empty>
      ) : null}
      {chosen && may("runs:write") ? <Beginning key={refOf(chosen)} pack={chosen} /> : null}
    </main>
  );
}

/** Messages that fit every agent. */
const TRIES = ["Hello", "What can you do?"];

/** The page before the first message: what the pack is, its variables, and what to try. */
function Beginning({ pack }: { pack: Pack }) {
  const [text, setText] = useState("");
  const agent = pack.entry ? "" : (pack.agents?.[0] ?? "");
  const { fields, read } = useVariables(pack.digest, agent);
  const start = useStart();
  const { document } = usePack(pack.digest);
  const tools = Object.keys(document.tools ?? {});
  return (
    <>
      <div className="chat-log">
        <Empty title={pack.name || pack.id}>
          {pack.description ? <p>{pack.description}</p> : null}
          <p>
            Write a message: it starts a run of{" "}
            <Link href={`/packs/${encodeURIComponent(refOf(pack))}`}>{refOf(pack)}</Link>
            {tools.length > 0 ? `, which can call ${tools.join(", ")}` : ""}. Enter sends,
            Shift+Enter begins a new line.
          </p>
          <div className="tries">
            {TRIES.map((words) => (
              <button type="button" key={words} className="chip" onClick={() => setText(words)}>
                {words}
              </button>
            ))}
          </div>
        </Empty>
        {fields}
      </div>
      <div className="chat-foot">
        <Composer
          placeholder={`Message ${pack.name || pack.id}`}
          text={text}
          onText={setText}
          onSend={async (message, id) => start({ pack, agent, variablesJson: read() }, message, id)}
        />
        <p className="foot muted">
          <Link href={`/start?pack=${encodeURIComponent(refOf(pack))}`}>
            Start with entry, labels and executor
          </Link>
        </p>
      </div>
    </>
  );
}

interface Start {
  pack: Pick<PackRef, "id" | "version">;
  /** Empty: the workflow. */
  agent: string;
  variablesJson: string;
}

/** Returns a function that starts a run with its first message, and opens its conversation. */
function useStart() {
  const [, go] = useLocation();
  return async ({ pack, agent, variablesJson }: Start, text: string, requestId: string) => {
    const { run } = await post<{ run: Run }>("/v1/runs", {
      pack: refOf(pack),
      ...(agent ? { agent } : {}),
      variablesJson,
      input: [{ text }],
      execution: await executorOf(pack.id),
      conversation: true,
      requestId,
    });
    go(`/chat/${run.runId}`);
  };
}

/** The variables of a run, as the fields of a form. */
function useVariables(digest: string, agent: string) {
  const graph = useGraph(digest, agent);
  const { document } = usePack(digest);
  const variables = variablesOf(document, graph.data);
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [tried, setTried] = useState(false);
  const { values, faults } = givenOf(variables, texts);
  /** Returns the values as JSON. Throws if a field is wrong, and shows why. */
  const read = (): string => {
    setTried(true);
    if (Object.keys(faults).length > 0) {
      throw new Problem(400, "Fill in the variables above: the prompts need them.");
    }
    return JSON.stringify(values);
  };
  const fields =
    variables.length > 0 ? (
      <div className="card">
        <VariableFields
          variables={variables}
          texts={texts}
          faults={tried ? faults : {}}
          onTexts={setTexts}
        />
      </div>
    ) : null;
  return { fields, read };
}

/** Returns the executor of a chat: the pack's workers, or the sidecar's models if there are none. */
async function executorOf(packId: string): Promise<string> {
  const { workers = [] } = await get<WorkerList>("/v1/workers").catch((): WorkerList => ({}));
  const serves = workers.some(
    (w) =>
      w.principal !== OWN &&
      (w.turnCapacity ?? 0) > 0 &&
      (!w.packs?.length || w.packs.some((p) => p.split("@")[0] === packId)),
  );
  const models = workers.some((w) => w.principal === OWN);
  return models && !serves ? "EXECUTION_SIDECAR" : "EXECUTION_WORKERS";
}

function RunChat({ id }: { id: string }) {
  const feed = useFeed(id, true);
  const { run, problem } = useSyncExternalStore(feed.subscribe, feed.state);
  if (run) {
    return <Talk feed={feed} run={run} />;
  }
  return (
    <main id="main" className="chat">
      {problem ? (
        <Failure problem={problem} onRetry={() => void feed.open()} />
      ) : (
        <Loading what="Loading the conversation" />
      )}
    </main>
  );
}

/** Shows a run as a conversation, and sends it further messages. */
function Talk({ feed, run }: { feed: RunFeed; run: Run }) {
  const { link, output } = useSyncExternalStore(feed.subscribe, feed.state);
  const { entries, cut } = useEntries(feed);
  const talk = useMemo(() => conversationOf(entries), [entries]);
  const live = liveText(talk, output);
  const before = useQuery({
    queryKey: ["before", talk.origin],
    queryFn: ({ signal }) => (talk.origin ? itemsBefore(talk.origin, signal) : []),
    enabled: talk.origin !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const waiting = useWaiting(run);
  const unserved = isUnserved(waiting);
  const look = useCallback(() => void feed.look(), [feed]);
  const graph = useGraph(run.pack.digest, run.agent);
  const { document } = usePack(run.pack.digest);
  const [, go] = useLocation();
  const over = isTerminal(run.status);
  useBottom();
  return (
    <main id="main" className="chat">
      <ChatHead run={run} link={over ? "ended" : link} unserved={unserved} />
      {cut ? (
        <p className="chat-note">
          Only the last {number(SHOWN)} records are shown;{" "}
          <Link href={`/runs/${run.runId}`}>the run</Link> has all of them.
        </p>
      ) : null}
      <ChatLog run={run} before={before.data ?? []} items={talk.items} live={live} />
      <Written run={run} />
      <div className="chat-foot">
        <OlderPack run={run} page="/chat" />
        <EndNotice run={run} onSeq={(seq) => go(`/runs/${run.runId}?seq=${seq}`)} />
        {unserved ? (
          <WaitingNotice waiting={waiting}>
            {" "}
            Start your app: <code>pawl dev</code> starts app.py or the script "app" of package.json,
            and <code>--app "COMMAND"</code> another one.
          </WaitingNotice>
        ) : null}
        {waiting?.kind === "WAITING_KIND_LIMIT" ? <WaitingNotice waiting={waiting} /> : null}
        <Progress run={run} writing={live !== ""} link={link} unserved={unserved} />
        <div className="actions">
          <EventButtons
            run={run}
            graph={graph.data}
            document={document}
            lead={<span className="muted">Or emit</span>}
            onStale={look}
          />
        </div>
        <Answer run={run} step={talk.asking?.step} onSent={look} />
      </div>
    </main>
  );
}

/** Returns the newest records of a run in order, up to the first one that is still being read. */
function useEntries(feed: RunFeed): { entries: readonly Entry[]; cut: boolean } {
  const { seq, version } = useSyncExternalStore(feed.subscribe, feed.state);
  const from = Math.max(1, seq - SHOWN + 1);
  useEffect(() => feed.need(from, seq), [feed, from, seq]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: The version counts new records.
  const entries = useMemo(() => {
    const out: Entry[] = [];
    for (let at = from; at <= seq; at++) {
      const entry = feed.record(at);
      if (!entry) {
        break;
      }
      out.push(entry);
    }
    return out;
  }, [feed, from, seq, version]);
  return { entries, cut: from > 1 };
}

interface HeadProps {
  run: Run;
  link: Parameters<typeof LinkState>[0]["link"];
  unserved: boolean;
}

function ChatHead({ run, link, unserved }: HeadProps) {
  const tokens = Number(run.tokens ?? 0);
  const cost = Number(run.costMicroUsd ?? 0);
  return (
    <div className="chat-head">
      <h1>{run.pack.id}</h1>
      <Badge status={run.status} paused={run.paused} unserved={unserved} />
      <span className="muted">
        in {run.state}
        {tokens > 0 ? `, ${number(tokens)} tokens` : ""}
        {cost > 0 ? `, ${dollars(cost)}` : ""}
      </span>
      <span className="chat-links">
        <LinkState link={link} waitsFor={unserved} />
        <Link href={`/runs/${run.runId}`}>Open the run</Link>
        <Link href={`/chat?pack=${encodeURIComponent(run.pack.id)}`}>New chat</Link>
      </span>
    </div>
  );
}

interface ProgressProps {
  run: Run;
  /** True: text of the open turn arrives. */
  writing: boolean;
  link: string;
  unserved: boolean;
}

/** Says in words what happens now, also to screen readers. */
function Progress({ run, writing, link, unserved }: ProgressProps) {
  const busy = statusOf(run.status) === "RUNNING" && !unserved && !run.paused && link !== "lost";
  return (
    <p className="chat-progress muted" role="status">
      {busy ? <span className="spinner" aria-hidden="true" /> : null}
      {progressOf(run, writing, link, unserved)}
    </p>
  );
}

function progressOf(run: Run, writing: boolean, link: string, unserved: boolean): string {
  const status = statusOf(run.status);
  if (isTerminal(run.status)) {
    return status === "COMPLETED" ? "The run has completed. A message starts a new one." : "";
  }
  if (link === "lost") {
    return "The sidecar cannot be reached. The page connects again by itself.";
  }
  if (run.paused) {
    return "The run is paused.";
  }
  if (run.steps?.some((s) => s.approval?.held)) {
    return "A call needs your decision.";
  }
  if (run.execution === "EXECUTION_CALLER" && run.turn) {
    return "The program that started this run executes its turns.";
  }
  if (status === "RUNNING") {
    return unserved ? "" : writing ? "Writing…" : "Working…";
  }
  return run.turn ? "Waiting for the result of a call." : "Waiting for your message.";
}

interface AnswerProps {
  run: Run;
  /** Step of the called agent that asks; undefined: none. */
  step: number | undefined;
  onSent: () => void;
}

/** Sends messages to the run; to one that has ended it starts a new run. */
function Answer({ run, step, onSent }: AnswerProps) {
  const may = useMay();
  const [text, setText] = useState("");
  const start = useStart();
  const over = isTerminal(run.status);
  if (!may("runs:write") || run.imported) {
    return null;
  }
  const send = async (message: string, id: string) => {
    const path = runPath(run.runId);
    if (over) {
      const query = { includeVariables: true };
      const { variablesJson = "{}" } = await get<{ variablesJson?: string }>(path, query);
      await start({ pack: run.pack, agent: run.agent ?? "", variablesJson }, message, id);
      return;
    }
    if (run.turn && step === undefined) {
      const when = "STEER_WHEN_NEXT_MODEL_CALL";
      await post(`${path}:steer`, { text: message, when, requestId: id });
    } else {
      await post(`${path}/inputs`, { parts: [{ text: message }], messageId: id, step });
    }
    onSent();
  };
  return (
    <Composer
      placeholder={over ? "Start a new run" : run.turn ? "Add a message" : "Message"}
      text={text}
      onText={setText}
      onSend={send}
    >
      {run.turn && !over ? <Stop run={run} /> : null}
    </Composer>
  );
}

/** Ends the open turn; the run then waits for a message. */
function Stop({ run }: { run: Run }) {
  const [busy, setBusy] = useState(false);
  const stop = async () => {
    setBusy(true);
    await post(`${runPath(run.runId)}:stop`, { requestId: crypto.randomUUID() }).catch(
      () => undefined,
    );
    setBusy(false);
  };
  return (
    <button type="button" className="button" disabled={busy} onClick={() => void stop()}>
      Stop
    </button>
  );
}

/** Shows the artifacts that the run has written. */
function Written({ run }: { run: Run }) {
  const [, go] = useLocation();
  const heads = run.artifacts ?? [];
  const writes = heads.map(({ name, seq }) => `${name} ${seq}`).join("\n");
  const request = useQuery({
    queryKey: ["written", run.runId, writes],
    queryFn: ({ signal }) =>
      get<{ artifacts?: Artifact[] }>(
        runPath(run.runId),
        { atSeq: run.seq, includeArtifacts: true },
        signal,
      ),
    enabled: heads.length > 0,
    placeholderData: (before) => before,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (heads.length === 0 || !request.data) {
    return null;
  }
  return (
    <details className="card chat-artifacts" open={isTerminal(run.status)}>
      <summary>Artifacts ({heads.length})</summary>
      <Artifacts
        runId={run.runId}
        artifacts={request.data.artifacts ?? []}
        seq={0}
        onSeq={(seq) => go(`/runs/${run.runId}?seq=${seq}`)}
      />
    </details>
  );
}
