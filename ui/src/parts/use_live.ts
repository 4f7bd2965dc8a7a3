import { useEffect, useRef, useState } from "react";
import { kindsOf } from "../api/client";
import { type Connection, follow } from "../api/follow";
import type { Entry } from "../api/types";

/** Kinds of records that change the row of a run. */
const KINDS = kindsOf(
  "transition",
  "turnOpened",
  "turnCompleted",
  "turnFailed",
  "turnSuspended",
  "turnReady",
  "paused",
  "resumed",
  "origin",
  "ended",
);

/** Follows all runs from now on, while the page is shown. */
export function useAllRecords(onEntries: (entries: Entry[]) => void): Connection {
  const [link, setLink] = useState<Connection>("connecting");
  const handler = useRef(onEntries);
  handler.current = onEntries;
  useEffect(() => {
    const stop = new AbortController();
    const place = { path: "/v1/transitions:stream", query: { kinds: KINDS } };
    void follow(place, { onEntries: (e) => handler.current(e), onLink: setLink }, stop.signal);
    return () => stop.abort();
  }, []);
  return link;
}
