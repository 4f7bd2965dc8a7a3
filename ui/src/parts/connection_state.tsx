import type { Link } from "../api/follow";

const WORDS: Record<Link, string> = {
  connecting: "Connecting",
  live: "Live",
  lost: "Reconnecting",
  ended: "Ended",
};

/**
 * Says whether what is shown is kept up to date. Where the run waits for a worker nothing lives
 * but the connection.
 */
export function LinkState({ link, waits = false }: { link: Link; waits?: boolean }) {
  return (
    <span className={`link-state ${link}`} role="status">
      <span className="dot" aria-hidden="true" />
      {waits && link === "live" ? "Up to date" : WORDS[link]}
    </span>
  );
}
