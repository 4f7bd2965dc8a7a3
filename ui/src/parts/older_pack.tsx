import { useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useLocation } from "wouter";
import { get, packPath, post, runPath } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { Pack, PackReport, Run } from "../api/types";
import { useMay } from "./caller";
import { isTerminal } from "./format";
import { usePack } from "./use_pack";

/** A pack is registered without a record that this page could follow, so it is read again. */
const EVERY_MS = 5_000;

/** Returns the default version of the run's pack, if it is newer than the run's; else undefined. */
function useNewerPack(run: Run): Pack | undefined {
  const own = usePack(run.pack.digest).asked.data?.pack;
  const { data } = useQuery({
    queryKey: ["default-pack", run.pack.id],
    queryFn: ({ signal }) => get<PackReport>(packPath(run.pack.id), {}, signal),
    // A caller who may not read packs is not refused again and again.
    refetchInterval: ({ state }) => (state.error ? false : EVERY_MS),
    refetchOnWindowFocus: true,
    staleTime: 0,
    retry: false,
    enabled: !isTerminal(run.status) && run.imported !== true,
  });
  const pack = data?.pack;
  if (!pack || !own || pack.digest === run.pack.digest || isTerminal(run.status)) {
    return undefined;
  }
  // A version that was moved has other bytes now, whenever these were registered first.
  const newer =
    pack.version === run.pack.version ||
    Date.parse(pack.registeredAt ?? "") > Date.parse(own.registeredAt ?? "");
  return newer ? pack : undefined;
}

/** Says that a run uses an older version of its pack, and forks it onto the newest one. */
export function OlderPack({ run, page }: { run: Run; page: "/runs" | "/chat" }) {
  const newest = useNewerPack(run);
  const may = useMay();
  const [, go] = useLocation();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const request = useRef({ of: "", id: "" });
  if (!newest) {
    return null;
  }
  const fork = async () => {
    setBusy(true);
    setProblem(undefined);
    const of = `${newest.digest} ${run.seq}`;
    if (request.current.of !== of) {
      request.current = { of, id: crypto.randomUUID() };
    }
    try {
      const forked = await post<{ run: Run }>(`${runPath(run.runId)}:fork`, {
        atSeq: run.seq,
        pack: newest.digest,
        reuseSteps: true,
        requestId: request.current.id,
      });
      go(`${page}/${forked.run.runId}`);
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <section className="waits older-pack" aria-label="Older version of the pack">
      <p role="status">
        This run uses an older version of the pack. A fork goes on from here with the newest one;
        this run stays as it is.
      </p>
      {may("runs:write") ? (
        <button type="button" className="button" disabled={busy} onClick={() => void fork()}>
          {busy ? "Forking…" : "Fork onto the newest version"}
        </button>
      ) : null}
      {problem ? (
        <p className="field-problem" role="alert">
          {problem.message}
        </p>
      ) : null}
    </section>
  );
}
