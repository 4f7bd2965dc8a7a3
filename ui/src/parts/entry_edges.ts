/** Finds the edges of the graph that a transition took: the requested one, or forced exits. */

import type { Entry, GraphEdge } from "../api/types";

export type Taken = "followed" | "refused" | undefined;

const keyOf = (from: string, event: string, kind: string): string => `${from}\n${event}\n${kind}`;

/** Returns the key of an edge; a timeout and its event are two edges between the same states. */
export const edgeKey = (edge: GraphEdge): string =>
  keyOf(
    edge.fromState,
    edge.kind === "EDGE_KIND_MAX_VISITS" ? "" : (edge.event ?? ""),
    edge.kind ?? "",
  );

/**
 * Returns the edges that a record took. If a guard refused the target of the event, the run took
 * the forced exit of that guard instead, perhaps several in a row.
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
    // A used-up edge leads to the exit of the state at which it begins.
    const owner = guard.startsWith("max_iterations:") ? fromState : state;
    taken.set(keyOf(owner, "", "EDGE_KIND_MAX_VISITS"), "followed");
  }
  return taken;
}

/** Returns how often the given records followed each edge. */
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
