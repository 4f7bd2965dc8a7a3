import { type ChangeEvent, type DragEvent, useState } from "react";
import { post } from "../api/client";
import { base64Of } from "../api/document";
import { asProblem, type Problem } from "../api/problem";
import type { ValidateReport } from "../api/types";
import { Failure } from "../parts/notices";
import { Findings, Terminations } from "../parts/pack_findings";
import { Source } from "../parts/source";
import { useTitle } from "../parts/use_title";

/** Checks a pack document and stores nothing. */
export function CheckPage() {
  useTitle("Check a pack");
  const [text, setText] = useState("");
  const [checked, setChecked] = useState("");
  const [report, setReport] = useState<ValidateReport>();
  const [problem, setProblem] = useState<Problem>();
  const [line, setLine] = useState(0);
  const check = async (content: string) => {
    setProblem(undefined);
    setLine(0);
    try {
      setReport(await post<ValidateReport>("/v1/packs:validate", { content: base64Of(content) }));
      setChecked(content);
    } catch (error) {
      setReport(undefined);
      setProblem(asProblem(error));
    }
  };
  const take = async (file: File | undefined) => {
    if (file) {
      const content = await file.text();
      setText(content);
      await check(content);
    }
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    void take(event.dataTransfer.files[0]);
  };
  return (
    <main id="main" className="check" onDragOver={(e) => e.preventDefault()} onDrop={drop}>
      <div className="page-head">
        <h1>Check a pack</h1>
      </div>
      <p className="muted">
        Nothing is stored. Paste a PromptPack, JSON or YAML, or drop a file on this page.
      </p>
      <CheckForm
        text={text}
        onText={setText}
        onCheck={(content) => void check(content)}
        onFile={take}
      />
      {problem ? <Failure problem={problem} /> : null}
      {report ? <Checked report={report} text={checked} line={line} onLine={setLine} /> : null}
    </main>
  );
}

interface FormProps {
  text: string;
  onText: (text: string) => void;
  onCheck: (content: string) => void;
  onFile: (file: File | undefined) => Promise<void>;
}

/** The form with the document, which the user types, chooses as a file or drops on the page. */
function CheckForm({ text, onText, onCheck, onFile }: FormProps) {
  return (
    <form
      className="card check-form"
      onSubmit={(e) => {
        e.preventDefault();
        onCheck(text);
      }}
    >
      <label className="field">
        Document
        <textarea
          rows={10}
          className="mono"
          spellCheck={false}
          value={text}
          onChange={(e) => onText(e.target.value)}
          required
        />
      </label>
      <div className="row">
        <button type="submit" className="button primary">
          Check
        </button>
        <label className="button file">
          Choose a file
          <input
            type="file"
            accept=".json,.yaml,.yml"
            onChange={(e: ChangeEvent<HTMLInputElement>) => void onFile(e.target.files?.[0])}
          />
        </label>
      </div>
    </form>
  );
}

interface CheckedProps {
  report: ValidateReport;
  /** The checked document. */
  text: string;
  /** The line of the document that is shown, from 1; 0: none. */
  line: number;
  onLine: (line: number) => void;
}

/** The result of a check: the findings, whether every run ends, and the checked document. */
function Checked({ report, text, line, onLine }: CheckedProps) {
  return (
    <div className="pack-grid">
      <section className="card" aria-label="Findings">
        <h2>
          {report.ok
            ? `${report.id}@${report.version} would be accepted`
            : "The pack would be refused"}
        </h2>
        <Findings diagnostics={report.diagnostics ?? []} onLine={onLine} />
      </section>
      <section className="card" aria-label="Termination">
        <h2>Termination</h2>
        {report.ok ? (
          <Terminations workflow={report.termination} agents={report.agentTerminations ?? []} />
        ) : (
          <p className="muted">Pawl checks this once the pack has no errors.</p>
        )}
      </section>
      <section className="card wide" aria-label="Source">
        <h2>Source</h2>
        <Source text={text} diagnostics={report.diagnostics ?? []} line={line} />
      </section>
    </div>
  );
}
