import { useEffect, useMemo, useRef } from "react";
import type { Diagnostic } from "../api/types";

interface Props {
  text: string;
  diagnostics: readonly Diagnostic[];
  /** Line to show, from 1; 0: none. */
  line: number;
}

/** Shows a document with line numbers, and marks lines with findings. */
export function Source({ text, diagnostics, line }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => text.split("\n"), [text]);
  const marked = useMemo(
    () =>
      new Map(
        diagnostics.map((d) => [
          d.line ?? 0,
          d.severity === "SEVERITY_ERROR" ? "error" : "warning",
        ]),
      ),
    [diagnostics],
  );
  useEffect(() => {
    const row = line > 0 ? box.current?.children[line - 1] : undefined;
    row?.scrollIntoView({ block: "center" });
  }, [line]);
  return (
    <div className="source" ref={box} tabIndex={0} role="group" aria-label="Source text">
      {lines.map((text, i) => (
        <div key={i} className={`${marked.get(i + 1) ?? ""}${i + 1 === line ? " here" : ""}`}>
          <span className="number" aria-hidden="true">
            {i + 1}
          </span>
          <code>{text || " "}</code>
        </div>
      ))}
    </div>
  );
}
