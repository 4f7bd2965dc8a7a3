import type { Diagnostic, Termination } from "../api/types";

/** Shows findings about a pack, with their places in the source. */
export function Findings({
  diagnostics,
  onLine,
}: {
  diagnostics: readonly Diagnostic[];
  onLine?: (line: number) => void;
}) {
  if (diagnostics.length === 0) {
    return (
      <p className="good">
        <span aria-hidden="true">✓</span> No findings: every rule holds.
      </p>
    );
  }
  return (
    <ul className="findings" tabIndex={0} aria-label="Findings">
      {worstFirst(diagnostics).map((d) => (
        <li
          key={`${d.code} ${d.pointer} ${d.line} ${d.message}`}
          className={d.severity === "SEVERITY_ERROR" ? "error" : "warning"}
        >
          <p>
            <b>{d.severity === "SEVERITY_ERROR" ? "Error" : "Warning"}</b>{" "}
            <span className="mono muted">{d.code}</span>{" "}
            {d.line ? (
              onLine ? (
                <button type="button" className="link" onClick={() => onLine(d.line ?? 0)}>
                  line {d.line}, column {d.column}
                </button>
              ) : (
                <span className="muted">
                  line {d.line}, column {d.column}
                </span>
              )
            ) : null}{" "}
            <span className="mono muted">{d.pointer}</span>
          </p>
          <p>{d.message}</p>
          {d.hint ? <p className="muted">{d.hint}</p> : null}
        </li>
      ))}
    </ul>
  );
}

/** Errors before warnings, each in the order of the document. */
function worstFirst(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const isError = (d: Diagnostic) => (d.severity === "SEVERITY_ERROR" ? 0 : 1);
  return diagnostics.toSorted((a, b) => isError(a) - isError(b));
}

/** Shows whether the loops of a pack end, and what bounds them. */
export function Terminations({
  workflow,
  agents,
}: {
  workflow: Termination | undefined;
  agents: readonly Termination[];
}) {
  const all = [...(workflow ? [workflow] : []), ...agents];
  if (all.length === 0) {
    return <p className="muted">There is no workflow and no agent to analyse.</p>;
  }
  return (
    <ul className="terminations">
      {all.map((t) => (
        <li key={t.agent ?? ""}>
          <p>
            <b>{t.agent ? `Agent ${t.agent}` : "Workflow"}</b>{" "}
            {t.bounded ? (
              <span className="good">
                <span aria-hidden="true">✓</span> always ends,{" "}
                {t.exact ? "in the worst case after" : "after at most"} {t.maxVisits} visits
              </span>
            ) : (
              <span className="bad">
                <span aria-hidden="true">!</span> may go on for ever
              </span>
            )}
          </p>
          {t.boundedBy?.length ? (
            <p className="muted">Bounded by {t.boundedBy.join(", ")}.</p>
          ) : null}
          {t.cycle?.length ? (
            <p className="mono cycle">
              {t.cycle[0]?.from}
              {t.cycle.map((e) => ` —${e.event || "limit reached"}→ ${e.to}`).join("")}
            </p>
          ) : null}
          {t.alsoLimitedBy?.length ? (
            <p className="muted">Also limited by {t.alsoLimitedBy.join(", ")}.</p>
          ) : null}
        </li>
      ))}
    </ul>
  );
}
