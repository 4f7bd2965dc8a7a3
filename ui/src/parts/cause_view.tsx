import { useQuery } from "@tanstack/react-query";
import { causeOf } from "../api/cause";
import { asProblem } from "../api/problem";
import type { Artifact, Run } from "../api/types";
import { bytes } from "./format";
import { Failure, Loading } from "./notices";
import { RenderedParts, RenderedValue } from "./rendered";

/** Shows the basis of a decision: the last output, the artifacts, and the inputs. */
export function CauseView({ run }: { run: Run }) {
  const request = useQuery({
    queryKey: ["led-here", run.runId, run.seq],
    queryFn: ({ signal }) => causeOf(run, signal),
    placeholderData: (before) => before,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (request.error) {
    return <Failure problem={asProblem(request.error)} onRetry={() => void request.refetch()} />;
  }
  if (!request.data) {
    return <Loading what="Loading the causes" />;
  }
  const { input, variables, since, output, artifacts } = request.data;
  const sorted = [...artifacts].sort((a, b) => Number(b.head.seq ?? 0) - Number(a.head.seq ?? 0));
  const fresh = sorted.filter((a) => Number(a.head.seq ?? 0) >= (output?.seq ?? 0));
  const older = sorted.filter((a) => !fresh.includes(a));
  return (
    <section className="led-here" aria-label="What led here">
      {output ? (
        <div>
          <h3>
            Output of {output.body.state ?? "the last turn"}{" "}
            <span className="muted">#{output.seq}</span>
          </h3>
          <RenderedParts parts={output.body.output} label="Output" />
        </div>
      ) : null}
      {fresh.map((a) => (
        <Shown key={a.head.name} artifact={a} />
      ))}
      {since.map((e) => (
        <div key={e.seq}>
          <h3>
            Input <span className="muted">#{e.seq}</span>
          </h3>
          <RenderedParts parts={e.body.parts} label="Input" />
        </div>
      ))}
      {older.length > 0 ? (
        <details>
          <summary>
            {older.length} earlier artifact{older.length > 1 ? "s" : ""}
          </summary>
          {older.map((a) => (
            <Shown key={a.head.name} artifact={a} />
          ))}
        </details>
      ) : null}
      <AtStart input={input} variables={variables} />
      {!output && artifacts.length === 0 && !input && since.length === 0 ? (
        <p className="muted">There is no input and no output yet.</p>
      ) : null}
    </section>
  );
}

type Led = Awaited<ReturnType<typeof causeOf>>;

function AtStart({ input, variables }: Pick<Led, "input" | "variables">) {
  return input || variables !== "{}" ? (
    <details>
      <summary>Input at the start</summary>
      <RenderedParts parts={input?.body.parts} label="Input at the start" />
      {variables === "{}" ? null : (
        <RenderedParts parts={[{ json: variables }]} label="Variables" />
      )}
    </details>
  ) : null;
}

function Shown({ artifact: { head, value } }: { artifact: Artifact }) {
  return (
    <div>
      <h3>
        {head.name}{" "}
        <span className="muted">
          {head.mediaType} {bytes(Number(head.bytes ?? 0))}
        </span>
      </h3>
      <RenderedValue value={value} label={head.name} />
    </div>
  );
}
