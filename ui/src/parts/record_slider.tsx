interface Props {
  last: number;
  selected: number;
  live: boolean;
  /** True: the run has not ended. */
  open: boolean;
  onSelect: (seq: number) => void;
  onLive: () => void;
}

/** Selects a record of a run; the rest of the page follows. */
export function RecordSlider({ last, selected, live, open, onSelect, onLive }: Props) {
  return (
    <div className="scrubber">
      <button
        type="button"
        className="button quiet"
        onClick={() => onSelect(selected - 1)}
        disabled={selected <= 1}
        aria-label="Previous record"
      >
        ‹
      </button>
      <input
        type="range"
        min={1}
        max={Math.max(last, 1)}
        value={selected}
        onChange={(e) => onSelect(Number(e.target.value))}
        aria-label="Record"
        aria-valuetext={`Record ${selected} of ${last}`}
      />
      <button
        type="button"
        className="button quiet"
        onClick={() => onSelect(selected + 1)}
        disabled={selected >= last}
        aria-label="Next record"
      >
        ›
      </button>
      <span className="position">
        <b>{selected}</b> <span className="muted">of {last}</span>
      </span>
      <button
        type="button"
        className={`button ${live ? "on" : ""}`}
        aria-pressed={live}
        onClick={onLive}
      >
        {open ? "Live" : "Latest"}
      </button>
    </div>
  );
}
