import { useMemo, useRef } from "react";
import type { Entry, Graph, Run } from "../api/types";
import { edgeKey, edgesOf, type Taken } from "./entry_edges";
import { LETTER_WIDTH, State } from "./graph_state";
import { type Box, curve, type Line, loop, type Picture, place } from "./layout";
import { READABLE, useViewport, type View } from "./use_viewport";
import { useWidth } from "./use_width";
import { VisitTable } from "./visit_table";

/** Least and greatest height of the graph on the page, in pixels. */
const LOWEST = 220;
const HIGHEST = 620;

interface Props {
  graph: Graph;
  /** The run whose visits are shown. Unset: only the pack is shown. */
  run?: Run | undefined;
  /** The selected record; the edges that it took are marked. */
  entry?: Entry | undefined;
  /** How often edges were followed that the run's counts do not distinguish, by edgeKey. */
  counts?: ReadonlyMap<string, number> | undefined;
  live?: boolean;
  onState?: ((state: string) => void) | undefined;
}

/** Shows the states of a pack with the visits of a run. */
export function GraphView(props: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const { graph, run, onState } = props;
  return (
    <div className="graph" ref={frame}>
      {width > 0 ? <Window {...props} width={width} /> : <div style={{ height: LOWEST }} />}
      {run ? <VisitTable graph={graph} run={run} onState={onState} /> : null}
    </div>
  );
}

/** The viewport over the graph, with its buttons. */
function Window(props: Props & { width: number }) {
  const { graph, run, width } = props;
  const picture = useMemo(() => place(graph, width, HIGHEST), [graph, width]);
  const height = Math.round(
    Math.min(HIGHEST, Math.max(LOWEST, picture.height * Math.min(1.15, width / picture.width))),
  );
  const box = useMemo(
    () => ({ width, height: Math.max(height, tall(picture, width)) }),
    [picture, width, height],
  );
  const here = run?.state ?? graph.entry;
  const focus = useMemo(() => picture.boxes.find((b) => b.node.name === here), [picture, here]);
  const port = useViewport(picture, box, focus);
  return (
    <div className="graph-window">
      <div
        ref={port.node}
        className="graph-port"
        style={{ height: box.height }}
        role="group"
        tabIndex={0}
        aria-label="State graph: arrows move it, plus and minus zoom, 0 shows all of it"
        onKeyDown={port.onKeyDown}
        {...port.drag}
      >
        <Drawing {...props} picture={picture} view={port.view} box={box} />
      </div>
      <div className="graph-tools" role="group" aria-label="Zoom">
        <button
          type="button"
          className="button small"
          onClick={() => port.zoom(1 / port.FACTOR)}
          aria-label="Zoom out"
        >
          −
        </button>
        <button
          type="button"
          className="button small"
          onClick={() => port.zoom(port.FACTOR)}
          aria-label="Zoom in"
        >
          +
        </button>
        <button type="button" className="button small" onClick={port.fit}>
          Fit
        </button>
        {port.moved ? (
          <button type="button" className="button small" onClick={port.reset}>
            Reset
          </button>
        ) : null}
      </div>
    </div>
  );
}

/** Whether a graph is too wide to be read, so that it gets room to be moved. */
const tall = (picture: Picture, width: number): number =>
  picture.width * READABLE > width ? Math.min(HIGHEST, picture.height * READABLE) : 0;

interface DrawingProps extends Props {
  picture: Picture;
  view: View;
  box: { width: number; height: number };
}

function Drawing({
  graph,
  run,
  entry,
  counts,
  live = false,
  onState,
  picture,
  view,
  box,
}: DrawingProps) {
  const taken = useMemo(() => edgesOf(entry), [entry]);
  const count = useCount(run, counts);
  return (
    <svg
      width={box.width}
      height={box.height}
      viewBox={`${view.x} ${view.y} ${box.width / view.scale} ${box.height / view.scale}`}
      className={view.scale < READABLE ? "far" : undefined}
      role="img"
      aria-label={describe(graph, run)}
    >
      <Arrows />
      {picture.lines.map((line) => (
        <Edge
          key={`${line.edge.fromState} ${line.edge.event} ${line.edge.toState} ${line.edge.kind}`}
          line={line}
          box={picture.boxes.find((b) => b.node.name === line.edge.fromState)}
          n={run ? count(line) : undefined}
          taken={taken.get(edgeKey(line.edge))}
          scale={view.scale}
        />
      ))}
      {picture.boxes.map((b) => (
        <State
          key={b.node.name}
          box={b}
          run={run}
          live={live}
          onState={onState}
          scale={view.scale}
        />
      ))}
    </svg>
  );
}

const Arrows = () => (
  <defs>
    {["arrow", "arrow-on", "arrow-refused"].map((id) => (
      <marker
        key={id}
        id={id}
        viewBox="0 0 8 8"
        refX="7"
        refY="4"
        markerWidth="7"
        markerHeight="7"
        orient="auto"
      >
        <path d="M0,0.6 7.4,4 0,7.4z" className={id.replace("-", " ")} />
      </marker>
    ))}
  </defs>
);

/** Returns a function that counts how often an edge was followed. */
function useCount(run: Run | undefined, counts: Props["counts"]): (line: Line) => number {
  const followed = useMemo(
    () => new Map((run?.edges ?? []).map((e) => [`${e.state}\n${e.event}`, e.count])),
    [run?.edges],
  );
  return (line) => {
    const special = counts?.get(edgeKey(line.edge)) ?? 0;
    if (line.edge.kind !== "EDGE_KIND_EVENT") {
      return special;
    }
    const { fromState, event } = line.edge;
    const expired = counts?.get(edgeKey({ ...line.edge, kind: "EDGE_KIND_TIMEOUT" })) ?? 0;
    return Math.max(0, (followed.get(`${fromState}\n${event}`) ?? 0) - expired);
  };
}

interface EdgeProps {
  line: Line;
  /** The state at which the edge begins. */
  box: Box | undefined;
  /** How often the edge was followed; unset: there is no run. */
  n: number | undefined;
  taken: Taken;
  /** Pixels for each unit of the picture. */
  scale: number;
}

function Edge({ line, box, n, taken, scale }: EdgeProps) {
  const { edge, points, label } = line;
  const forced = edge.kind === "EDGE_KIND_MAX_VISITS";
  const used = n !== undefined && n > 0;
  const on = taken === "followed";
  const text = forced ? "limit reached" : (edge.event ?? "");
  const bound = edge.maxIterations ? `/${edge.maxIterations}` : "";
  const figure = n === undefined ? "" : n > 0 || (bound && !forced) ? ` ×${n}${bound}` : "";
  const arrow = taken === "refused" ? "arrow-refused" : on ? "arrow-on" : "arrow";
  // When zoomed out, only the edges that the record took have names, because all names would
  // overlap.
  const named = scale >= READABLE || taken !== undefined;
  const size = Math.max(12.5, LETTER_WIDTH / scale);
  return (
    <g
      className={`edge${forced ? " forced" : ""}${used ? " used" : ""}${taken ? ` ${on ? "on" : taken}` : ""}${n === 0 ? " idle" : ""}`}
    >
      <title>{`${text}: ${edge.fromState} → ${edge.toState}${figure}${taken === "refused" ? ", refused" : ""}`}</title>
      <path
        d={box && edge.fromState === edge.toState ? loop(box, label) : curve(points)}
        markerEnd={`url(#${arrow})`}
      />
      {named ? (
        <text x={label.x} y={label.y + size / 3} textAnchor="middle" style={{ fontSize: size }}>
          {edge.kind === "EDGE_KIND_TIMEOUT" ? "◷ " : ""}
          {taken === "refused" ? "✕ " : ""}
          {text}
          <tspan className="figure">{figure}</tspan>
        </text>
      ) : null}
    </g>
  );
}

function describe(graph: Graph, run: Run | undefined): string {
  const names = (graph.nodes ?? []).map((n) =>
    run ? `${n.name} ${run.visits?.[n.name] ?? 0}` : n.name,
  );
  return run
    ? `State graph. Now in ${run.state}. Visits: ${names.join(", ")}.`
    : `State graph. Entry ${graph.entry}. States: ${names.join(", ")}.`;
}
