import { useEffect, useRef, useState } from "react";

const SECONDS = 60;

/** Returns the counts per second of the last minute, and the function that adds to them. */
export function useRate(): [number[], (n: number) => void] {
  const counts = useRef<number[]>(Array(SECONDS).fill(0));
  const [shown, setShown] = useState<number[]>(counts.current);
  useEffect(() => {
    const timer = setInterval(() => {
      setShown(counts.current);
      counts.current = [...counts.current.slice(1), 0];
    }, 1000);
    return () => clearInterval(timer);
  }, []);
  const add = useRef((n: number) => {
    const last = counts.current.length - 1;
    counts.current[last] = (counts.current[last] ?? 0) + n;
  });
  return [shown, add.current];
}

/** Shows the last minute as one line; the newest second is at the right. */
export function Sparkline({ values, what }: { values: number[]; what: string }) {
  const top = Math.max(1, ...values);
  const points = values.map((v, i) => `${(i / (values.length - 1)) * 120},${27 - (v / top) * 24}`);
  const total = values.reduce((a, b) => a + b, 0);
  return (
    <figure className="sparkline">
      <svg
        viewBox="0 0 120 28"
        role="img"
        aria-label={`${what} in the last minute: ${total}, at most ${Math.max(...values)} a second`}
      >
        <polygon className="area" points={`0,28 ${points.join(" ")} 120,28`} />
        <polyline className="line" points={points.join(" ")} />
      </svg>
      <figcaption>
        {total} <span className="muted">{what} in the last minute</span>
      </figcaption>
    </figure>
  );
}
