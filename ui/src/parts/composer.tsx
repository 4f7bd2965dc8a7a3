import { type ReactNode, useEffect, useRef, useState } from "react";
import { asProblem, type Problem } from "../api/problem";

interface Props {
  placeholder: string;
  /** The text at the beginning. */
  text: string;
  onText: (text: string) => void;
  /** Sends the text; a repetition of the same text after an error has the same id. */
  onSend: (text: string, id: string) => Promise<void>;
  /** Buttons beside the send button. */
  children?: ReactNode;
}

/** The field in which a message is written. Enter sends, Shift+Enter begins a new line. */
export function Composer({ placeholder, text, onText, onSend, children }: Props) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const request = useRef({ text: "", id: "" });
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (text !== "") {
      field.current?.focus();
    }
  }, [text]);
  const send = async () => {
    if (busy || text.trim() === "") {
      return;
    }
    if (request.current.text !== text) {
      request.current = { text, id: crypto.randomUUID() };
    }
    setBusy(true);
    setProblem(undefined);
    try {
      await onSend(text, request.current.id);
      request.current = { text: "", id: "" };
      onText("");
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy(false);
    field.current?.focus();
  };
  return (
    <form
      className="composer"
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
    >
      {problem ? (
        <p className="field-problem" role="alert">
          {problem.message}
          {problem.status === 0
            ? " Your message is kept: send it again when the page is live."
            : ""}
        </p>
      ) : null}
      <div className="composer-row">
        <textarea
          ref={field}
          // biome-ignore lint/a11y/noAutofocus: The page is for writing a message.
          autoFocus
          rows={Math.min(8, text.split("\n").length)}
          aria-label="Message"
          aria-keyshortcuts="Enter"
          placeholder={placeholder}
          value={text}
          onChange={(e) => onText(e.target.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing) {
              e.preventDefault();
              void send();
            }
          }}
        />
        <button type="submit" className="button primary" disabled={busy || text.trim() === ""}>
          {busy ? "Sending…" : "Send"}
        </button>
        {children}
      </div>
    </form>
  );
}
