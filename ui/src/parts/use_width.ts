import { type RefObject, useEffect, useState } from "react";

/** Width of an element in whole pixels, as it changes; 0 before it is drawn. */
export function useWidth(node: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = node.current;
    if (!element) {
      return;
    }
    setWidth(Math.floor(element.clientWidth));
    const watch = new ResizeObserver(() => setWidth(Math.floor(element.clientWidth)));
    watch.observe(element);
    return () => watch.disconnect();
  }, [node]);
  return width;
}
