/** Computes where an event would lead a run, from the run's counts. */

import type { Graph, GraphEdge, Run } from "../api/types";
import { statusWord } from "./format";

export interface NextState {
  /** State that the run would enter; empty: none, the run ends. */
  to: string;
  /** True: the run ends with this state. */
  ends: boolean;
  /** States that would refuse, each with its used-up guard. */
  refused: readonly string[];
  /** The result in one sentence. */
  words: string;
}

/** Returns the path of an event out of the run's state, following used-up guards. */
export function nextStates(graph: Graph | undefined, run: Run, event: string): NextState {
  const from = run.state ?? "";
  const edge = graph?.edges?.find(
    (e) => e.fromState === from && e.event === event && e.kind === "EDGE_KIND_EVENT",
  );
  if (!graph || !edge) {
    return { to: "", ends: false, refused: [], words: "The pack determines the next state." };
  }
  const refused: string[] = [];
  let next: string | undefined = edge.toState;
  if (usage(run, edge)) {
    refused.push(`${from}.${event} was followed ${edge.maxIterations} times`);
    next = exitOf(graph, from);
  }
  const seen = new Set<string>();
  while (next && !seen.has(next)) {
    seen.add(next);
    const node = graph.nodes?.find((n) => n.name === next);
    const visits = run.visits?.[next] ?? 0;
    if (!node?.maxVisits || visits < node.maxVisits) {
      return describe(next, node?.terminal === true, refused);
    }
    refused.push(`${next} had its ${node.maxVisits} visits`);
    next = exitOf(graph, next);
  }
  const words = `ends the run: ${statusWord("BUDGET_EXHAUSTED").toLowerCase()}, ${refused.join(", ")}`;
  return { to: "", ends: true, refused, words };
}

const usage = (run: Run, { fromState, event, maxIterations }: GraphEdge): boolean =>
  (maxIterations ?? 0) > 0 &&
  (run.edges?.find((e) => e.state === fromState && e.event === event)?.count ?? 0) >=
    (maxIterations ?? 0);

const exitOf = (graph: Graph, state: string): string | undefined =>
  graph.nodes?.find((n) => n.name === state)?.onMaxVisits;

function describe(to: string, ends: boolean, refused: string[]): NextState {
  const why = refused.length > 0 ? `, since ${refused.join(", ")}` : "";
  return {
    to,
    ends,
    refused,
    words: `leads to ${to}${ends ? ", the last state" : ""}${why}`,
  };
}
