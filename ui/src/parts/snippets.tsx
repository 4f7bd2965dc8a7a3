import type { Run } from "../api/types";
import { CopyButton } from "./copy_button";
import { Dialog } from "./dialog";

interface Props {
  run: Run;
  seq: number;
  /** An event that the run accepts now. */
  event: string | undefined;
  onClose: () => void;
}

/** Shows commands and code that read the run or the record. */
export function Snippets({ run, seq, event, onClose }: Props) {
  return (
    <Dialog title="Copy as" onClose={onClose}>
      <div className="snippets">
        {snippets(run.runId, seq, event).map(([name, code]) => (
          <section key={name}>
            <div className="snippet-head">
              <h3>{name}</h3>
              <CopyButton text={code} what={name} />
            </div>
            <pre tabIndex={0} role="group" aria-label={name}>
              {code}
            </pre>
          </section>
        ))}
      </div>
    </Dialog>
  );
}

/** Quotes a word for a POSIX shell, because events are the pack author's text. */
export const quoted = (word: string): string =>
  /^[\w.@:/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

export function snippets(id: string, seq: number, event: string | undefined): [string, string][] {
  const emit = event === undefined ? "" : `\npawl runs emit ${id} ${quoted(event)}`;
  return [
    ["Command line", `pawl runs show ${id} --at ${seq}\npawl runs trace ${id}${emit}`],
    ["curl", `curl -s '${location.origin}/v1/runs/${id}?atSeq=${seq}&includeArtifacts=true'`],
    [
      "Python",
      `from pawl_client import Client\n\nwith Client() as client:\n    run = client.attach("${id}")\n    for record in run.transitions():\n        print(record.seq, record.body)${event === undefined ? "" : `\n    run.emit(${JSON.stringify(event)})`}`,
    ],
    [
      "TypeScript",
      `import { PawlClient } from "pawl-client";\n\nconst run = new PawlClient().attach("${id}");\nfor await (const record of run.transitions()) {\n  console.log(record.seq, record.body);\n}${event === undefined ? "" : `\nawait run.emit(${JSON.stringify(event)});`}`,
    ],
  ];
}
