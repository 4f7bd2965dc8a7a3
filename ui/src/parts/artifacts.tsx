import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get, runPath } from "../api/client";
import { asProblem } from "../api/problem";
import type { Artifact } from "../api/types";
import { DiffView } from "./diff_view";
import { bytes } from "./format";
import { Empty, Failure, Loading } from "./notices";
import { Text, textOfValue } from "./value";

interface Props {
  runId: string;
  artifacts: readonly Artifact[];
  /** Seq of the selected record. */
  seq: number;
  onSeq: (seq: number) => void;
}

/** Shows the artifacts at a record, each with the change by its last write. */
export function Artifacts({ runId, artifacts, seq, onSeq }: Props) {
  const [open, setOpen] = useState<string | undefined>();
  if (artifacts.length === 0) {
    return (
      <Empty title="Nothing written yet">Artifacts appear with the record that writes them.</Empty>
    );
  }
  return (
    <ul className="artifacts">
      {artifacts.map((artifact) => {
        const { name, mediaType, mode, writes, bytes: size, seq: last } = artifact.head;
        const wrote = Number(last ?? 0);
        const fresh = wrote === seq;
        const shown = open === name;
        return (
          <li key={name} className={fresh ? "fresh" : undefined}>
            <div className="artifact-head">
              <button
                type="button"
                className="disclose"
                aria-expanded={shown}
                onClick={() => setOpen(shown ? undefined : name)}
              >
                <span aria-hidden="true" className="caret">
                  ▸
                </span>
                <span className="artifact-name">{name}</span>
                <span className="muted artifact-type">
                  {mediaType}
                  {mode === "ARTIFACT_MODE_APPEND" ? ", append" : ""}
                </span>
                <span className="muted artifact-size">{bytes(Number(size ?? 0))}</span>
              </button>
              <button
                type="button"
                className="link artifact-seq"
                onClick={() => onSeq(wrote)}
                title="Go to the record that wrote it last"
              >
                #{last} <span className="hidden">wrote {name}</span>
                {(writes ?? 0) > 1 ? ` ×${writes}` : ""}
              </button>
            </div>
            {shown ? (
              <ArtifactBody runId={runId} artifact={artifact} />
            ) : (
              <p className="preview">{preview(artifact)}</p>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function preview(artifact: Artifact): string {
  const value = artifact.value;
  return (value?.json ?? value?.text ?? value?.data ?? "").slice(0, 160);
}

interface Snapshot {
  artifacts?: Artifact[];
}

function ArtifactBody({ runId, artifact }: { runId: string; artifact: Artifact }) {
  const [view, setView] = useState<"value" | "diff">("value");
  const { name, seq } = artifact.head;
  const before = Number(seq ?? 0) - 1;
  const request = useQuery({
    queryKey: ["snapshot", runId, before],
    queryFn: ({ signal }) =>
      get<Snapshot>(runPath(runId), { atSeq: before, includeArtifacts: true }, signal),
    enabled: view === "diff" && before > 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const now = textOfValue(artifact.value);
  const was = textOfValue(request.data?.artifacts?.find((a) => a.head.name === name)?.value);
  return (
    <div className="artifact-body">
      <div className="segmented">
        <button type="button" aria-pressed={view === "value"} onClick={() => setView("value")}>
          Value
        </button>
        <button type="button" aria-pressed={view === "diff"} onClick={() => setView("diff")}>
          Changed by #{seq}
        </button>
      </div>
      {view === "value" ? (
        <Text text={now} label={`Value of ${name}`} />
      ) : request.error ? (
        <Failure problem={asProblem(request.error)} />
      ) : before > 0 && !request.data ? (
        <Loading what="Loading the previous value" />
      ) : (
        <DiffView before={was} after={now} label={`Change of ${name}`} />
      )}
    </div>
  );
}
