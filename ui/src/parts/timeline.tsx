import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useRef } from "react";
import type { RunFeed } from "../api/run_feed";
import type { Entry } from "../api/types";
import { kindWord, summary, timeOf } from "./format";

/** Height of a record in pixels; the style sheet has the same. */
const ROW = 34;

/** How many records a key moves. */
const JUMPS: Record<string, number> = {
  ArrowDown: 1,
  ArrowUp: -1,
  j: 1,
  k: -1,
  PageDown: 10,
  PageUp: -10,
};

interface Props {
  feed: RunFeed;
  /** Number of records. */
  last: number;
  selected: number;
  /** True: the newest record is selected when it arrives. */
  live: boolean;
  onSelect: (seq: number) => void;
}

/** Shows all records of a run, and reads only the visible ones. */
export function Timeline({ feed, last, selected, live, onSelect }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: last,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 10,
    initialOffset: Math.max(0, selected * ROW - 220),
  });
  const items = virtual.getVirtualItems();
  const first = (items[0]?.index ?? 0) + 1;
  const end = (items.at(-1)?.index ?? 0) + 1;
  useEffect(() => feed.need(first - 40, end + 40), [feed, first, end]);
  useEffect(() => {
    virtual.scrollToIndex(selected - 1, { align: "auto" });
  }, [selected, virtual]);
  const step = (event: KeyboardEvent) => {
    const jump = { ...JUMPS, Home: -last, End: last }[event.key];
    if (jump) {
      event.preventDefault();
      onSelect(Math.min(Math.max(selected + jump, 1), last));
    }
  };
  return (
    <div
      className="timeline"
      ref={box}
      role="listbox"
      aria-label="Records"
      tabIndex={0}
      onKeyDown={step}
      aria-activedescendant={`record-${selected}`}
    >
      <div role="presentation" style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {items.map((item) => {
          const seq = item.index + 1;
          return (
            <Line
              key={seq}
              seq={seq}
              entry={feed.record(seq)}
              top={item.start}
              selected={seq === selected}
              newest={live && seq === last}
              onSelect={onSelect}
              last={last}
            />
          );
        })}
      </div>
    </div>
  );
}

interface LineProps {
  seq: number;
  last: number;
  entry: Entry | undefined;
  top: number;
  selected: boolean;
  newest: boolean;
  onSelect: (seq: number) => void;
}

function Line({ seq, last, entry, top, selected, newest, onSelect }: LineProps) {
  return (
    <div
      id={`record-${seq}`}
      role="option"
      aria-selected={selected}
      aria-posinset={seq}
      aria-setsize={last}
      className={`record ${entry?.kind ?? "pending"}${newest ? " newest" : ""}`}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => onSelect(seq)}
    >
      <span className="seq">{seq}</span>
      <span className="glyph" aria-hidden="true" />
      {entry ? (
        <>
          <span className="kind">{kindWord(entry)}</span>
          <span className="what">{summary(entry)}</span>
          <time className="muted" dateTime={entry.at}>
            {timeOf(entry.at)}
          </time>
        </>
      ) : (
        <span className="what muted">…</span>
      )}
    </div>
  );
}
