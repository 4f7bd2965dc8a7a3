import { statusOf, statusWord } from "./words";

const MARKS: Record<string, string> = {
  RUNNING: "▶",
  WAITING: "◷",
  COMPLETED: "✓",
  BUDGET_EXHAUSTED: "⊘",
  ESCALATED: "!",
  FAILED: "✕",
  CANCELLED: "–",
};

/** A status by word, mark and colour, so that none of them carries it alone. */
export function Badge({ status, paused }: { status: string; paused?: boolean | undefined }) {
  const name = statusOf(status);
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
