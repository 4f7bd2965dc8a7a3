import { useEffect, useRef, useState } from "react";

/** A value that changes at once after a rest, and no more often than every so many ms. */
export function useThrottled<T>(value: T, everyMs: number): T {
  const [settled, setSettled] = useState(value);
  const last = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, last.current + everyMs - performance.now());
    const timer = setTimeout(() => {
      last.current = performance.now();
      setSettled(value);
    }, wait);
    return () => {
      // A value that was due is overtaken by the next, but never for longer than everyMs.
      clearTimeout(timer);
    };
  }, [value, everyMs]);
  return settled;
}
