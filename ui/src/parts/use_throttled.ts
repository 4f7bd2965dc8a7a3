import { useEffect, useRef, useState } from "react";

/** Returns a value that changes at once after a pause, and at most every so many milliseconds. */
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
      // The next value replaces a pending one, but delays it by at most everyMs.
      clearTimeout(timer);
    };
  }, [value, everyMs]);
  return settled;
}
