import { useState } from "react";
import type { ArtifactValue, Message, Part } from "../api/types";
import { pretty } from "./words";

/** Lines that are shown at first; the rest on demand. */
const LINES = 60;

/** Text as it is. Nothing in it is markup. */
export function Text({ text, label }: { text: string; label?: string }) {
  const [whole, setWhole] = useState(false);
  const lines = text.split("\n");
  const cut = !whole && lines.length > LINES;
  return (
    <div className="value">
      <pre tabIndex={0} role="group" aria-label={label ?? "Value"}>
        {cut ? lines.slice(0, LINES).join("\n") : text}
      </pre>
      {cut ? (
        <button type="button" className="link" onClick={() => setWhole(true)}>
          Show all {lines.length} lines
        </button>
      ) : null}
    </div>
  );
}

export function textOfValue(value: ArtifactValue | undefined): string {
  if (!value) {
    return "";
  }
  return value.json !== undefined
    ? pretty(value.json)
    : (value.text ?? (value.data ? `base64: ${value.data}` : ""));
}

export function textOfParts(parts: readonly Part[] | undefined): string {
  return (parts ?? [])
    .map(
      (p) =>
        p.text ??
        (p.json !== undefined
          ? pretty(p.json)
          : (p.uri ?? `${p.mediaType ?? "bytes"}, base64: ${p.data ?? ""}`)),
    )
    .join("\n");
}

/** A conversation, oldest first. */
export function Messages({ messages }: { messages: readonly Message[] }) {
  return (
    <ol className="messages">
      {messages.map((m, i) => (
        <li
          key={i}
          className={`message ${["user", "assistant", "tool", "system"].includes(m.role) ? m.role : ""}`}
        >
          <p className="role">{m.role}</p>
          <Text text={textOfParts(m.parts)} label={`Message of ${m.role}`} />
          {m.toolCallsJson ? <Text text={pretty(m.toolCallsJson)} label="Tool calls" /> : null}
        </li>
      ))}
    </ol>
  );
}
