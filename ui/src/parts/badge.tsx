import { statusOf, statusWord } from "./format";

const MARKS: Record<string, string> = {
  RUNNING: "▶",
  WAITING: "◷",
  COMPLETED: "✓",
  BUDGET_EXHAUSTED: "⊘",
  ESCALATED: "!",
  FAILED: "✕",
  CANCELLED: "–",
};

interface Props {
  status: string;
  paused?: boolean | undefined;
  /** True: no connected worker serves the open turn. */
  unserved?: boolean;
}

/** Shows a status by a word, a mark and a colour, so that it does not depend on one of them. */
export function Badge({ status, paused, unserved = false }: Props) {
  const name = statusOf(status);
  if (unserved) {
    return (
      <span className="badge waiting">
        <span className="mark" aria-hidden="true">
          {MARKS.WAITING}
        </span>
        No worker
      </span>
    );
  }
  return (
    <span className={`badge ${name.toLowerCase()}`}>
      <span className="mark" aria-hidden="true">
        {paused ? "Ⅱ" : MARKS[name]}
      </span>
      {statusWord(name)}
      {paused ? ", paused" : ""}
    </span>
  );
}
