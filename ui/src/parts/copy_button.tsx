import { useEffect, useState } from "react";

/** Copies a text and reports that it did. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState("");
  useEffect(() => {
    if (done === "") {
      return;
    }
    const timer = setTimeout(() => setDone(""), 1_500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setDone("Copied"),
      () => setDone("The browser refused to copy"),
    );
  return (
    <button type="button" className="button quiet small" onClick={copy} aria-label={`Copy ${what}`}>
      <span aria-live="polite">{done || `Copy ${what}`}</span>
    </button>
  );
}
