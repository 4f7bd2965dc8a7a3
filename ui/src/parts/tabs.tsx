import { type KeyboardEvent, type ReactNode, useId, useState } from "react";

interface Props {
  label: string;
  tabs: readonly (readonly [string, () => ReactNode])[];
}

/** Shows one of several views; the arrow keys move between tabs. */
export function Tabs({ label, tabs }: Props) {
  const [at, setAt] = useState(0);
  const id = useId();
  const step = (event: KeyboardEvent<HTMLDivElement>) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) {
      const next = (at + by + tabs.length) % tabs.length;
      setAt(next);
      event.currentTarget.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
    }
  };
  return (
    <>
      <div role="tablist" aria-label={label} className="tabs" onKeyDown={step}>
        {tabs.map(([name], i) => (
          <button
            type="button"
            role="tab"
            key={name}
            id={`${id}-${i}`}
            aria-selected={i === at}
            aria-controls={`${id}-panel`}
            tabIndex={i === at ? 0 : -1}
            onClick={() => setAt(i)}
          >
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${at}`} className="tab-panel">
        {tabs[at]?.[1]()}
      </div>
    </>
  );
}
