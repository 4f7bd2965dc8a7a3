/** Computes the positions of a graph's states and edges. */

import { Graph as Dagre, layout } from "@dagrejs/dagre";
import type { Graph, GraphEdge, GraphNode } from "../api/types";

export interface Point {
  x: number;
  y: number;
}

export interface Box extends Point {
  node: GraphNode;
  width: number;
  height: number;
}

export interface Line {
  edge: GraphEdge;
  points: Point[];
  label: Point;
}

export interface Picture {
  width: number;
  height: number;
  boxes: Box[];
  lines: Line[];
}

const CHAR = 7.6;
const HEIGHT = 58;

const labelOf = (edge: GraphEdge): string => edge.event ?? "";

/** Whether an outside event may move a run out of the state. */
export const isOutside = (node: GraphNode): boolean =>
  node.orchestration === "ORCHESTRATION_EXTERNAL" || node.orchestration === "ORCHESTRATION_HYBRID";

/** Lays out a graph in the direction in which it can be drawn larger. */
export function place(graph: Graph, width: number, height: number): Picture {
  const across = arrange(graph, "LR");
  const down = arrange(graph, "TB");
  const scale = (p: Picture) => Math.min(1, width / p.width, height / p.height);
  return scale(across) >= scale(down) ? across : down;
}

function arrange(graph: Graph, rankdir: "LR" | "TB"): Picture {
  const g = new Dagre({ multigraph: true });
  g.setGraph({
    rankdir,
    nodesep: 34,
    ranksep: rankdir === "LR" ? 46 : 38,
    edgesep: 22,
    marginx: 14,
    marginy: 14,
  });
  g.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes ?? []) {
    // The name and the visits share one line.
    const figures = (node.maxVisits ? 7 : 4) + (isOutside(node) ? 3 : 0);
    const chars = Math.max((node.name.length + figures) * 1.12, (node.prompt ?? "").length);
    const width = Math.max(124, chars * CHAR + 30);
    g.setNode(node.name, { width: Math.min(width, 300), height: HEIGHT });
  }
  const edges = graph.edges ?? [];
  edges.forEach((edge, i) => {
    const width = labelOf(edge).length * 6.6 + 36;
    g.setEdge(edge.fromState, edge.toState, { width, height: 20, labelpos: "c" }, String(i));
  });
  layout(g);
  return {
    width: g.graph().width ?? 0,
    height: g.graph().height ?? 0,
    boxes: (graph.nodes ?? []).map((node) => ({
      node,
      ...(g.node(node.name) as Point & { width: number; height: number }),
    })),
    lines: edges.map((edge, i) => {
      const line = g.edge({ v: edge.fromState, w: edge.toState, name: String(i) }) as Point & {
        points: Point[];
      };
      return { edge, points: line.points, label: { x: line.x, y: line.y } };
    }),
  };
}

/** Returns a line from a box to its label and back; the label is at its right or below it. */
export function loop({ x, y, width, height }: Box, label: Point): string {
  const side = x + width / 2;
  if (label.x > side) {
    const far = side + (label.x - side) * 1.25;
    return `M${side},${y - 12} C${far},${y - 26} ${far},${y + 26} ${side},${y + 12}`;
  }
  const edge = y + height / 2;
  const far = edge + (label.y - edge) * 1.25;
  return `M${x - 14},${edge} C${x - 34},${far} ${x + 34},${far} ${x + 14},${edge}`;
}

/**
 * A line through the points with round corners. Its last piece has a length: an arrowhead takes
 * its direction from there.
 */
export function curve(points: readonly Point[]): string {
  const [first, ...rest] = apart(points);
  if (!first) {
    return "";
  }
  const path = `M${first.x},${first.y}`;
  const [only] = rest;
  if (only && rest.length === 1) {
    return `${path} L${only.x},${only.y}`;
  }
  return rest.slice(0, -1).reduce((line, p, i) => {
    const next = rest[i + 1] ?? p;
    const middle = { x: (p.x + next.x) / 2, y: (p.y + next.y) / 2 };
    const end = i === rest.length - 2 ? next : middle;
    return `${line} Q${p.x},${p.y} ${end.x},${end.y}`;
  }, path);
}

/** Returns the points without consecutive equal ones. */
const apart = (points: readonly Point[]): Point[] =>
  points.filter((p, i) => {
    const before = points[i - 1];
    return !before || Math.hypot(p.x - before.x, p.y - before.y) > 0.01;
  });
