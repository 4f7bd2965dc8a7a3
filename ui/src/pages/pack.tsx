import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { get, packPath } from "../api/client";
import { type Document, textOf } from "../api/document";
import { asProblem } from "../api/problem";
import type { Pack, PackReport } from "../api/types";
import { CopyButton } from "../parts/copy_button";
import { DiffView } from "../parts/diff_view";
import { when } from "../parts/format";
import { GraphView } from "../parts/graph_view";
import { Empty, Failure, Loading } from "../parts/notices";
import { Findings, Terminations } from "../parts/pack_findings";
import { Source } from "../parts/source";
import { useGraph, usePack } from "../parts/use_pack";
import { useTitle } from "../parts/use_title";

/** Shows one version of a pack: its graph, its findings, its agents, its source. */
export function PackPage({ reference }: { reference: string }) {
  const { asked: request, source, document } = usePack(plain(reference));
  const [line, setLine] = useState(0);
  useTitle(request.data?.pack.id ?? "Pack");
  if (request.error) {
    return (
      <main id="main">
        <Failure problem={asProblem(request.error)} onRetry={() => void request.refetch()} />
      </main>
    );
  }
  if (!request.data) {
    return (
      <main id="main">
        <Loading what="Loading the pack" />
      </main>
    );
  }
  const { pack, diagnostics = [], termination, agentTerminations = [] } = request.data;
  return (
    <main id="main" className="pack-page">
      <PackHead pack={pack} />
      <div className="pack-grid">
        <PackGraph pack={pack} />
        <section className="card" aria-label="Findings">
          <h2>Findings</h2>
          <Findings diagnostics={diagnostics} onLine={setLine} />
        </section>
        <div className="column">
          <section className="card" aria-label="Termination">
            <h2>Termination</h2>
            <Terminations workflow={termination} agents={agentTerminations} />
          </section>
          <section className="card" aria-label="Agents">
            <h2>Agents</h2>
            <Agents pack={pack} document={document} />
          </section>
          <section className="card" aria-label="Versions">
            <h2>Versions</h2>
            <Versions pack={pack} source={source} />
          </section>
        </div>
        <section className="card wide" aria-label="Source">
          <div className="card-head">
            <h2>Source</h2>
            <CopyButton text={source} what="source" />
          </div>
          <Source text={source} diagnostics={diagnostics} line={line} />
        </section>
      </div>
    </main>
  );
}

/** Decodes a part of the page's address. */
function plain(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function PackHead({ pack }: { pack: Pack }) {
  return (
    <header className="run-head">
      <div className="run-title">
        <h1>{pack.name || pack.id}</h1>
        <span className="version">{pack.version}</span>
        {pack.isDefault ? <span className="muted">default version</span> : null}
      </div>
      {pack.description ? <p>{pack.description}</p> : null}
      <p className="meta muted">
        <span className="mono">{pack.id}</span>
        <span className="mono" title={pack.digest}>
          {pack.digest.slice(0, 19)}…
        </span>
        <span>registered {when(pack.registeredAt)}</span>
        <Link href={`/?pack=${encodeURIComponent(`${pack.id}@${pack.version}`)}`}>Its runs</Link>
        {pack.entry || pack.agents?.length ? (
          <>
            <Link href={`/chat?pack=${encodeURIComponent(`${pack.id}@${pack.version}`)}`}>
              Chat
            </Link>
            <Link href={`/start?pack=${encodeURIComponent(`${pack.id}@${pack.version}`)}`}>
              Start a run
            </Link>
          </>
        ) : null}
      </p>
    </header>
  );
}

function PackGraph({ pack }: { pack: Pack }) {
  const members = pack.agents ?? [];
  const entries = pack.entry ? ["", ...members] : members;
  const [entry, setEntry] = useState(entries[0]);
  const graph = useGraph(entry === undefined ? undefined : pack.digest, entry);
  return (
    <section className="card wide" aria-label="State graph">
      <div className="card-head">
        <h2>States</h2>
        {entries.length > 1 ? (
          <label className="inline">
            Entry
            <select value={entry} onChange={(e) => setEntry(e.target.value)}>
              {entries.map((name) => (
                <option key={name} value={name}>
                  {name === "" ? "workflow" : `agent ${name}`}
                </option>
              ))}
            </select>
          </label>
        ) : null}
        {graph.data?.mermaid ? <CopyButton text={graph.data.mermaid} what="Mermaid" /> : null}
      </div>
      {entry === undefined ? (
        <Empty title="Nothing to run">The pack has neither a workflow nor agents.</Empty>
      ) : null}
      {graph.error ? <Failure problem={asProblem(graph.error)} /> : null}
      {graph.data ? <GraphView graph={graph.data} /> : null}
    </section>
  );
}

function Agents({ pack, document }: { pack: Pack; document: Document }) {
  const members = Object.entries(document.agents?.members ?? {});
  if (members.length === 0) {
    return <p className="muted">The pack has no agents.</p>;
  }
  return (
    <ul className="agents">
      {members.map(([key, member]) => (
        <li key={key}>
          <p>
            <b>{document.prompts?.[key]?.name ?? key}</b> <span className="mono muted">{key}</span>
            {document.agents?.entry === key ? <span className="label">entry</span> : null}
          </p>
          <p>{member.description ?? document.prompts?.[key]?.description}</p>
          <p className="muted">
            {member.state
              ? `Runs the workflow from ${member.state}.`
              : "Runs one turn of its prompt."}{" "}
            {document.prompts?.[key]?.tools?.length
              ? `Tools: ${document.prompts[key].tools.join(", ")}.`
              : ""}{" "}
            {member.input_modes ? `Takes ${member.input_modes.join(", ")}.` : ""}{" "}
            {member.output_modes ? `Gives ${member.output_modes.join(", ")}.` : ""}
          </p>
          <Card pack={pack} agent={key} />
          {(member.tags ?? []).map((tag) => (
            <span key={tag} className="label">
              {tag}
            </span>
          ))}
        </li>
      ))}
    </ul>
  );
}

interface AgentCard {
  version?: string;
  supportedInterfaces?: { url?: string; protocolBinding?: string }[];
  skills?: { id?: string; name?: string; description?: string }[];
}

/** Shows the agent card; empty if the sidecar serves no agents. */
function Card({ pack, agent }: { pack: Pack; agent: string }) {
  const name = `${pack.id}@${pack.version}`;
  const request = useQuery({
    queryKey: ["card", name, agent],
    queryFn: ({ signal }) => get<AgentCard>(cardPath(name, agent), {}, signal),
    retry: false,
  });
  const card = request.data;
  if (!card) {
    return null;
  }
  return (
    <details className="agent-card">
      <summary>Agent card</summary>
      <dl className="facts">
        {(card.supportedInterfaces ?? []).map((at) => (
          <div key={`${at.protocolBinding} ${at.url}`}>
            <dt>{at.protocolBinding}</dt>
            <dd className="mono">{at.url}</dd>
          </div>
        ))}
        {(card.skills ?? []).map((skill) => (
          <div key={skill.id}>
            <dt>Skill</dt>
            <dd>
              {skill.name} <span className="muted">{skill.description}</span>
            </dd>
          </div>
        ))}
      </dl>
      <CopyButton text={location.origin + cardPath(name, agent)} what="card address" />
    </details>
  );
}

const cardPath = (pack: string, agent: string): string =>
  `/a2a/${encodeURIComponent(pack)}/${encodeURIComponent(agent)}/.well-known/agent-card.json`;

function Versions({ pack, source }: { pack: Pack; source: string }) {
  const listed = useQuery({
    queryKey: ["packs"],
    queryFn: ({ signal }) => get<{ packs?: Pack[] }>("/v1/packs", { pageSize: 1000 }, signal),
  });
  const others = (listed.data?.packs ?? []).filter(
    (p) => p.id === pack.id && p.version !== pack.version,
  );
  const [against, setAgainst] = useState("");
  const other = useQuery({
    queryKey: ["pack", against],
    queryFn: ({ signal }) => get<PackReport>(packPath(against), { includeContent: true }, signal),
    enabled: against !== "",
  });
  if (others.length === 0) {
    return <p className="muted">{pack.version} is the only one.</p>;
  }
  return (
    <>
      <label className="inline">
        Compare {pack.version} with
        <select value={against} onChange={(e) => setAgainst(e.target.value)}>
          <option value="">choose a version</option>
          {others.map((p) => (
            <option key={p.version} value={`${p.id}@${p.version}`}>
              {p.version}
            </option>
          ))}
        </select>
      </label>
      {other.error ? <Failure problem={asProblem(other.error)} /> : null}
      {other.data ? (
        <DiffView
          before={textOf(other.data.content)}
          after={source}
          label={`From ${against} to ${pack.version}`}
        />
      ) : null}
    </>
  );
}
