import type { ArtifactValue, Part } from "../api/types";
import { Text, textOfParts, textOfValue } from "./value";

/** Depth down to which a JSON value is shown as text; deeper values are shown as JSON. */
const DEPTH = 4;

/** Values beyond 2^53 would lose digits when they are parsed. */
const LONG = /\d{16,}/;

/** Shows a value in readable form for a decision. Text that is not JSON is shown unchanged. */
export function RenderedValue({
  value,
  label,
}: {
  value: ArtifactValue | undefined;
  label: string;
}) {
  return value?.json === undefined ? (
    <Prose text={textOfValue(value)} label={label} />
  ) : (
    <RenderedJson json={value.json} label={label} />
  );
}

export function RenderedParts({
  parts,
  label,
}: {
  parts: readonly Part[] | undefined;
  label: string;
}) {
  return (
    <>
      {(parts ?? []).map((part, i) =>
        part.json === undefined ? (
          <Prose key={i} text={textOfParts([part])} label={label} />
        ) : (
          <RenderedJson key={i} json={part.json} label={label} />
        ),
      )}
    </>
  );
}

function Prose({ text, label }: { text: string; label: string }) {
  return text.length > 1_500 ? (
    <Text text={text} label={label} />
  ) : (
    <p className="prose">{text || <span className="muted">nothing</span>}</p>
  );
}

function RenderedJson({ json, label }: { json: string; label: string }) {
  let value: unknown;
  try {
    value = LONG.test(json) ? undefined : JSON.parse(json);
  } catch {
    value = undefined;
  }
  return value === undefined || json.length > 20_000 ? (
    <Text text={textOfValue({ json })} label={label} />
  ) : (
    <Value value={value} depth={0} />
  );
}

function Value({ value, depth }: { value: unknown; depth: number }) {
  if (value === null || typeof value !== "object") {
    return <span className="prose">{String(value)}</span>;
  }
  if (depth >= DEPTH) {
    return <code>{JSON.stringify(value)}</code>;
  }
  if (Array.isArray(value)) {
    return value.length === 0 ? (
      <span className="muted">none</span>
    ) : (
      <ol className="json-list">
        {value.map((item, i) => (
          <li key={i}>
            <Value value={item} depth={depth + 1} />
          </li>
        ))}
      </ol>
    );
  }
  const members = Object.entries(value);
  return members.length === 0 ? (
    <span className="muted">none</span>
  ) : (
    <dl className="json-object">
      {members.map(([name, member]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <Value value={member} depth={depth + 1} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
