import { useEffect } from "react";

/** Pixels from the end of the page at which a reader counts as being at the end. */
const NEAR = 60;

/** Keeps the end of the page in view while content is added, unless the reader scrolled up. */
export function useBottom(): void {
  useEffect(() => {
    const root = document.documentElement;
    let follows = true;
    const look = () => {
      follows = root.scrollHeight - window.innerHeight - window.scrollY < NEAR;
    };
    const grown = new ResizeObserver(() => {
      if (follows) {
        window.scrollTo({ top: root.scrollHeight, behavior: "instant" });
      }
    });
    window.addEventListener("scroll", look, { passive: true });
    grown.observe(document.body);
    return () => {
      window.removeEventListener("scroll", look);
      grown.disconnect();
    };
  }, []);
}
