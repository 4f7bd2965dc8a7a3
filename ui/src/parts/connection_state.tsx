import type { Connection } from "../api/follow";

const WORDS: Record<Connection, string> = {
  connecting: "Connecting",
  live: "Live",
  lost: "Reconnecting",
  ended: "Ended",
};

/**
 * Shows whether the page is kept up to date. If the run waits for a worker, only the connection is
 * live.
 */
export function LinkState({
  link,
  waitsFor: waiting = false,
}: {
  link: Connection;
  waitsFor?: boolean;
}) {
  return (
    <span className={`link-state ${link}`} role="status">
      <span className="dot" aria-hidden="true" />
      {waiting && link === "live" ? "Up to date" : WORDS[link]}
    </span>
  );
}
