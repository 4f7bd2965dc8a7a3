import { useEffect, useState } from "react";
import { RunFeed } from "../api/run_feed";

/** Follows a run while the page is shown; with output also the text of its open turn. */
export function useFeed(id: string, output = false): RunFeed {
  const [feed, setFeed] = useState(() => new RunFeed(id, output));
  useEffect(() => {
    // A closed feed cannot be opened again, and the effect may run twice.
    const opened = new RunFeed(id, output);
    setFeed(opened);
    void opened.open();
    return () => opened.close();
  }, [id, output]);
  return feed;
}
