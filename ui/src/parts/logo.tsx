/** The ratchet and its pawl. */
export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="var(--accent)" />
      <circle
        cx="14"
        cy="17"
        r="7"
        fill="none"
        stroke="#fff"
        strokeWidth="3"
        strokeDasharray="3.1 2.4"
      />
      <path d="M25 7 17.5 15" stroke="#fff" strokeWidth="3.2" strokeLinecap="round" />
    </svg>
  );
}
