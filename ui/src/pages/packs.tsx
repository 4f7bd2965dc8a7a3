import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { get } from "../api/client";
import { asProblem } from "../api/problem";
import type { Pack } from "../api/types";
import { bytes, when } from "../parts/format";
import { Empty, Failure, Loading } from "../parts/notices";
import { useTitle } from "../parts/use_title";

/** Shows every registered pack with its versions. */
export function PacksPage() {
  useTitle("Packs");
  const request = useQuery({
    queryKey: ["packs"],
    queryFn: ({ signal }) => get<{ packs?: Pack[] }>("/v1/packs", { pageSize: 1000 }, signal),
    staleTime: 0,
  });
  const packs = request.data?.packs ?? [];
  const ids = [...new Set(packs.map((p) => p.id))];
  return (
    <main id="main" className="packs">
      <div className="page-head">
        <h1>Packs</h1>
      </div>
      {request.error ? (
        <Failure problem={asProblem(request.error)} onRetry={() => void request.refetch()} />
      ) : null}
      {request.isPending ? <Loading what="Reading packs" /> : null}
      {request.data && ids.length === 0 ? (
        <Empty title="No pack is registered">
          <code>pawl packs register my.pack.yaml</code>, or{" "}
          <Link href="/check">check one first</Link>.
        </Empty>
      ) : null}
      <ul className="pack-list">
        {ids.map((id) => (
          <PackCard key={id} versions={packs.filter((p) => p.id === id)} />
        ))}
      </ul>
    </main>
  );
}

function PackCard({ versions }: { versions: Pack[] }) {
  const shown = versions.find((p) => p.isDefault) ?? versions.at(-1);
  if (!shown) {
    return null;
  }
  return (
    <li className="card pack-card">
      <h2>
        <Link href={`/packs/${encodeURIComponent(`${shown.id}@${shown.version}`)}`}>
          {shown.name || shown.id}
        </Link>
      </h2>
      <p className="mono muted">{shown.id}</p>
      {shown.description ? <p>{shown.description}</p> : null}
      <dl className="facts">
        <div>
          <dt>Entry</dt>
          <dd>{shown.entry || "none"}</dd>
        </div>
        <div>
          <dt>Agents</dt>
          <dd>{shown.agents?.join(", ") || "none"}</dd>
        </div>
        <div>
          <dt>Size</dt>
          <dd>{bytes(Number(shown.sizeBytes ?? 0))}</dd>
        </div>
        <div>
          <dt>Versions</dt>
          <dd>
            {versions.map((p) => (
              <Link
                key={p.version}
                className="version"
                href={`/packs/${encodeURIComponent(`${p.id}@${p.version}`)}`}
                title={when(p.registeredAt)}
              >
                {p.version}
                {p.isDefault ? ", default" : ""}
              </Link>
            ))}
          </dd>
        </div>
      </dl>
      <p>
        <Link href={`/?pack=${encodeURIComponent(shown.id)}`}>Its runs</Link>
        {shown.entry || shown.agents?.length ? (
          <>
            {" "}
            <Link href={`/chat?pack=${encodeURIComponent(`${shown.id}@${shown.version}`)}`}>
              Chat
            </Link>{" "}
            <Link href={`/start?pack=${encodeURIComponent(`${shown.id}@${shown.version}`)}`}>
              Start a run
            </Link>
          </>
        ) : null}
      </p>
    </li>
  );
}
