/** Which edges of the graph a transition took: the one it asked for, or forced exits. */

import type { Entry, GraphEdge } from "../api/types";

export type Taken = "followed" | "refused" | undefined;

const keyOf = (from: string, event: string, kind: string): string => `${from}\n${event}\n${kind}`;

/** The key of an edge; a timeout and its event are two edges of one pair of states. */
export const edgeKey = (edge: GraphEdge): string =>
  keyOf(
    edge.fromState,
    edge.kind === "EDGE_KIND_MAX_VISITS" ? "" : (edge.event ?? ""),
    edge.kind ?? "",
  );

/**
 * The edges that a record took. An event with a refused target was not followed: the
 * forced exit of the guard was, perhaps of several in a row.
 */
export function edgesOf(entry: Entry | undefined): Map<string, Taken> {
  const taken = new Map<string, Taken>();
  if (entry?.kind !== "transition" || !entry.body.fromState) {
    return taken;
  }
  const { fromState, event = "", redirects = [] } = entry.body;
  const kind = entry.cause === "CAUSE_TIMEOUT" ? "EDGE_KIND_TIMEOUT" : "EDGE_KIND_EVENT";
  taken.set(keyOf(fromState, event, kind), redirects.length > 0 ? "refused" : "followed");
  for (const { state, guard } of redirects) {
    // An edge that is used up is left by the exit of the state that it begins at.
    const owner = guard.startsWith("max_iterations:") ? fromState : state;
    taken.set(keyOf(owner, "", "EDGE_KIND_MAX_VISITS"), "followed");
  }
  return taken;
}

/** How often each edge was followed by the given records. */
export function countEdges(entries: readonly Entry[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const entry of entries) {
    for (const [key, how] of edgesOf(entry)) {
      if (how === "followed") {
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    }
  }
  return counts;
}
