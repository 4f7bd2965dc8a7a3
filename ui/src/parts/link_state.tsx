import type { Link } from "../api/follow";

const WORDS: Record<Link, string> = {
  connecting: "Connecting",
  live: "Live",
  lost: "Reconnecting",
  ended: "Complete",
};

/** Says whether what is shown is kept up to date. */
export function LinkState({ link }: { link: Link }) {
  return (
    <span className={`link-state ${link}`} role="status">
      <span className="dot" aria-hidden="true" />
      {WORDS[link]}
    </span>
  );
}
