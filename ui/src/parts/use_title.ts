import { useEffect } from "react";

/** Names the page in the tab. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Pawl`;
  }, [title]);
}
