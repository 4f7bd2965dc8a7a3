import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type FocusEvent,
  type KeyboardEvent,
  type MouseEvent,
  memo,
  type ReactNode,
  type RefObject,
  useEffect,
  useRef,
} from "react";
import { useLocation } from "wouter";
import type { Row } from "../api/run_list";
import { Badge } from "./badge";
import { ago, when } from "./format";
import { Loading } from "./notices";
import { RunId } from "./run_id";
import { useNow } from "./use_now";

/** Height of a row in pixels; the style sheet has the same. */
const ROW = 44;
const COLUMNS = [
  "Run",
  "Pack",
  "State",
  "Status",
  "Reason",
  "Visits",
  "Labels",
  "Started",
  "Changed",
];

interface Props {
  rows: readonly Row[];
  complete: boolean;
  loading: boolean;
  /** True: the list could not be read; another part of the page reports it. */
  failed: boolean;
  onMore: () => void;
  empty: ReactNode;
}

/** Shows rows, of which only the visible ones exist; reads the next page before it is needed. */
export function RunTable({ rows, complete, loading, failed, onMore, empty }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const now = useNow(5_000);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  useEffect(() => {
    if (!complete && !loading && last >= rows.length - 200) {
      onMore();
    }
  }, [complete, loading, last, rows.length, onMore]);
  const { step, aimAt } = useKeys(box, rows.length, virtual.scrollToIndex);
  const follow = useFollow();
  if (rows.length === 0 && failed) {
    return null;
  }
  if (rows.length === 0) {
    return (
      <div className="card">{loading || !complete ? <Loading what="Reading runs" /> : empty}</div>
    );
  }
  return (
    <section className="card table-card" aria-label="Runs">
      <div
        className="table"
        role="table"
        aria-label="Runs"
        aria-rowcount={complete ? rows.length + 1 : -1}
      >
        <Head />
        <div
          className="tbody"
          role="rowgroup"
          ref={box}
          onKeyDown={step}
          onFocus={aimAt}
          onClick={follow}
        >
          <div role="presentation" className="rows" style={{ height: virtual.getTotalSize() }}>
            {items.map((item) => {
              const row = rows[item.index];
              return row ? (
                <RunRow key={row.id} row={row} index={item.index} top={item.start} now={now} />
              ) : null;
            })}
          </div>
        </div>
      </div>
    </section>
  );
}

const Head = () => (
  <div role="rowgroup" className="thead">
    <div className="tr" role="row" aria-rowindex={1}>
      {COLUMNS.map((name) => (
        <div role="columnheader" key={name} className={name.toLowerCase()}>
          {name}
        </div>
      ))}
    </div>
  </div>
);

/** Arrows and letters move the focus from row to row. */
function useKeys(
  box: RefObject<HTMLDivElement | null>,
  count: number,
  scrollTo: (index: number) => void,
) {
  // The row of the keyboard, which is ahead of the focus while keys come faster than frames.
  const aim = useRef(-1);
  const step = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (!by || aim.current < 0) {
      return;
    }
    event.preventDefault();
    const to = Math.min(Math.max(aim.current + by, 0), count - 1);
    aim.current = to;
    scrollTo(to);
    requestAnimationFrame(() => {
      if (aim.current === to) {
        box.current?.querySelector<HTMLElement>(`[data-index="${to}"] a`)?.focus();
      }
    });
  };
  const aimAt = (event: FocusEvent) => {
    aim.current = Number(event.target.closest<HTMLElement>("[data-index]")?.dataset.index ?? -1);
  };
  return { step, aimAt };
}

/** Handles a click on a row: it opens the run, or copies its id. */
function useFollow() {
  const [, go] = useLocation();
  // One handler for all rows, because a handler for each link takes too much of a frame.
  return (event: MouseEvent) => {
    const copy = (event.target as Element).closest<HTMLElement>("[data-copy]");
    if (copy) {
      void copyId(copy);
      return;
    }
    const link = (event.target as Element).closest("a");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
    if (link && plain && !event.altKey) {
      event.preventDefault();
      go(link.pathname.replace(/^\/ui/, ""));
    }
  };
}

/** Copies the id of a row and reports it for a moment. */
async function copyId(button: HTMLElement): Promise<void> {
  const done = await navigator.clipboard.writeText(button.dataset.copy ?? "").then(
    () => "copied",
    () => "refused",
  );
  button.dataset.done = done;
  setTimeout(() => delete button.dataset.done, 1_500);
}

interface RowProps {
  row: Row;
  index: number;
  top: number;
  now: number;
}

const RunRow = memo(function RunRow({ row, index, top, now }: RowProps) {
  return (
    <div
      className="tr"
      role="row"
      aria-rowindex={index + 2}
      data-index={index}
      data-run={row.id}
      style={{ transform: `translateY(${top}px)` }}
    >
      <div role="cell" className="run">
        <a href={`/ui/runs/${row.id}`}>
          <RunId id={row.id} />
        </a>
        <button type="button" className="copy" data-copy={row.id} aria-label={`Copy id ${row.id}`}>
          <span aria-hidden="true">⧉</span>
        </button>
      </div>
      <div role="cell" className="pack" title={`${row.pack}@${row.version}`}>
        {row.pack}
        <span className="muted">@{row.version}</span>
      </div>
      <div role="cell" className="state" title={row.state}>
        {row.state}
      </div>
      <div role="cell" className="status">
        <Badge status={row.status} paused={row.paused} />
      </div>
      <div role="cell" className="reason muted" title={row.reason}>
        {row.reason}
      </div>
      <div role="cell" className="visits">
        {row.visits}
      </div>
      <div role="cell" className="labels muted" title={row.labels}>
        {row.labels}
      </div>
      <div role="cell" className="started muted" title={when(row.createdAt)}>
        {ago(row.createdAt, now)}
      </div>
      <div role="cell" className="changed muted" title={when(row.updatedAt)}>
        {ago(row.updatedAt, now)}
      </div>
    </div>
  );
});
