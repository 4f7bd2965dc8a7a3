import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "wouter";
import { get } from "../api/client";
import { asProblem } from "../api/problem";
import type { Pack } from "../api/types";
import { useMay } from "../parts/caller";
import { Empty, Failure, Loading } from "../parts/notices";
import { refOf, StartForm } from "../parts/start_form";
import { useTitle } from "../parts/use_title";

/** Starts a run: selects its pack, entry, variables and executor. */
export function StartPage() {
  useTitle("Start a run");
  const [params, setParams] = useSearchParams();
  const may = useMay();
  const packs = useQuery({
    queryKey: ["packs"],
    queryFn: ({ signal }) => get<{ packs?: Pack[] }>("/v1/packs", { pageSize: 1000 }, signal),
  });
  const runnable = (packs.data?.packs ?? []).filter((p) => p.entry || p.agents?.length);
  const request = params.get("pack") ?? "";
  const chosen =
    runnable.find((p) => refOf(p) === request || (p.id === request && p.isDefault)) ??
    (request === "" && runnable.length === 1 ? runnable[0] : undefined);
  return (
    <main id="main" className="start-page">
      <div className="page-head">
        <h1>Start a run</h1>
      </div>
      {packs.error ? (
        <Failure problem={asProblem(packs.error)} onRetry={() => void packs.refetch()} />
      ) : null}
      {packs.isPending ? <Loading what="Reading packs" /> : null}
      {may("runs:write") ? null : (
        <Empty title="Your token cannot start runs">The scope runs:write is missing.</Empty>
      )}
      {packs.data && runnable.length === 0 ? (
        <Empty title="No pack can be run">
          <code>pawl packs register my.pack.yaml</code>
        </Empty>
      ) : null}
      {runnable.length > 0 && may("runs:write") ? (
        <div className="card">
          <label className="field">
            Pack
            <select
              value={chosen ? refOf(chosen) : ""}
              onChange={(e) => setParams({ pack: e.target.value }, { replace: true })}
            >
              <option value="">choose one</option>
              {runnable.map((p) => (
                <option key={refOf(p)} value={refOf(p)}>
                  {refOf(p)}
                  {p.isDefault ? ", default" : ""}
                </option>
              ))}
            </select>
          </label>
          {chosen ? <StartForm key={refOf(chosen)} pack={chosen} /> : null}
        </div>
      ) : null}
    </main>
  );
}
