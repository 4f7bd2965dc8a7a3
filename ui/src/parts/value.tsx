import { useState } from "react";
import type { ArtifactValue, Message, Part } from "../api/types";
import { pretty } from "./format";

/** Lines that are shown at first; the others on demand. */
const LINES = 60;

/** Shows text without markup. */
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

export function textOfParts(parts: readonly Part[] | undefined, exact = false): string {
  return (parts ?? [])
    .map(
      (p) =>
        p.text ??
        (p.json !== undefined
          ? exact
            ? p.json
            : pretty(p.json)
          : (p.uri ?? `${p.mediaType ?? "bytes"}, base64: ${p.data ?? ""}`)),
    )
    .join("\n");
}

interface MessagesProps {
  messages: readonly Message[];
  /** True: shows JSON byte for byte, without added line breaks. */
  exact?: boolean;
}

/** Shows a conversation, oldest message first. */
export function Messages({ messages, exact = false }: MessagesProps) {
  const json = (text: string) => (exact ? text : pretty(text));
  return (
    <ol className="messages">
      {messages.map((m, i) => (
        <li
          key={i}
          className={`message ${["user", "assistant", "tool", "system"].includes(m.role) ? m.role : ""}`}
        >
          <p className="role">
            {m.role}
            {m.toolCallId ? <span className="muted"> answers {m.toolCallId}</span> : null}
          </p>
          {m.parts?.length || !(m.toolCallsJson || m.refusal) ? (
            <Text text={textOfParts(m.parts, exact)} label={`Message of ${m.role}`} />
          ) : null}
          {m.refusal ? <Text text={m.refusal} label="Refusal" /> : null}
          {m.toolCallsJson ? <Text text={json(m.toolCallsJson)} label="Tool calls" /> : null}
          {exact && m.providerJson ? <Text text={m.providerJson} label="Provider data" /> : null}
        </li>
      ))}
    </ol>
  );
}
