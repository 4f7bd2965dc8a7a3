import { useQuery } from "@tanstack/react-query";
import { endReason } from "../api/end_reason";
import type { Run } from "../api/types";
import { isTerminal, statusOf, statusWord } from "./format";

/** Ends that the head of the page describes completely. */
const WANTED = ["COMPLETED", "CANCELLED"];

/** Shows at the top why a run ended without success. */
export function EndNotice({ run, onSeq }: { run: Run; onSeq: (seq: number) => void }) {
  const status = statusOf(run.status);
  const shown = isTerminal(run.status) && !WANTED.includes(status);
  const request = useQuery({
    queryKey: ["ending", run.runId, run.seq],
    queryFn: ({ signal }) => endReason(run, signal),
    enabled: shown,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (!shown) {
    return null;
  }
  const { words, error, seq } = request.data ?? {};
  return (
    <section className={`end-notice ${status.toLowerCase()}`} aria-label="Why the run ended">
      <p>
        <b>{statusWord(status)}.</b> {words ?? run.reason}
      </p>
      {error ? (
        <p className="end-error">
          <b className="mono">{error.code}</b> {error.message}
        </p>
      ) : null}
      {seq ? (
        <button type="button" className="link" onClick={() => onSeq(seq)}>
          Record #{seq}
        </button>
      ) : null}
    </section>
  );
}
