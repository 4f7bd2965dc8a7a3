import { diffLines } from "diff";
import { useMemo } from "react";

/** Unchanged lines that are shown around a change. */
const AROUND = 3;
/** Longest time of one comparison in milliseconds; after it, the texts are shown whole. */
const DIFF_TIMEOUT_MS = 250;

interface Line {
  sign: "+" | "-" | " " | "…";
  text: string;
}

/** Shows the changes between two texts, line by line. */
export function DiffView({
  before,
  after,
  label,
}: {
  before: string;
  after: string;
  label: string;
}) {
  const lines = useMemo(() => compare(before, after), [before, after]);
  if (before === after) {
    return <p className="muted">Nothing changed.</p>;
  }
  return (
    <pre className="diff" tabIndex={0} role="group" aria-label={label}>
      {lines.map((line, i) => (
        <span key={i} className={line.sign === "+" ? "plus" : line.sign === "-" ? "minus" : "same"}>
          {line.sign} {line.text}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

export function compare(before: string, after: string): Line[] {
  // The last line of a text is equal to the same line with a line break.
  const whole = (text: string) => (text === "" || text.endsWith("\n") ? text : `${text}\n`);
  const parts = diffLines(whole(before), whole(after), { timeout: DIFF_TIMEOUT_MS }) ?? [
    { value: before, removed: true, added: false },
    { value: after, removed: false, added: true },
  ];
  return parts.flatMap((part, i) => {
    const lines = part.value.replace(/\n$/, "").split("\n");
    if (part.added || part.removed) {
      return part.value === ""
        ? []
        : lines.map((text): Line => ({ sign: part.added ? "+" : "-", text }));
    }
    return shorten(lines, i === 0, i === parts.length - 1);
  });
}

/** Removes lines that are far from any change. */
function shorten(lines: string[], first: boolean, last: boolean): Line[] {
  const same = (text: string): Line => ({ sign: " ", text });
  const head = first ? 0 : AROUND;
  const tail = last ? 0 : AROUND;
  if (lines.length <= head + tail + 1) {
    return lines.map(same);
  }
  const hidden = lines.length - head - tail;
  return [
    ...lines.slice(0, head).map(same),
    { sign: "…", text: `${hidden} equal lines` },
    ...(tail > 0 ? lines.slice(-tail).map(same) : []),
  ];
}
