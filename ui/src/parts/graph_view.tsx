import { useMemo, useRef } from "react";
import type { Entry, Graph, Run } from "../api/types";
import { edgeKey, edgesOf, type Taken } from "./entry_edges";
import { type Box, curve, isOutside, type Line, loop, type Picture, place } from "./layout";
import { READABLE, useViewport, type View } from "./use_viewport";
import { useWidth } from "./use_width";

/** Pixels: what the graph takes at least and at most of the page's height. */
const LOWEST = 220;
const HIGHEST = 620;

/** Smallest letters on the screen, pixels, and how wide one of them is for its height. */
const LETTER = 11.5;
const SLIM = 0.58;

interface Props {
  graph: Graph;
  /** The run whose visits are shown; none: the pack as it is. */
  run?: Run | undefined;
  /** The record that is looked at; what it took is marked. */
  entry?: Entry | undefined;
  /** How often edges were followed that no count of the run tells apart, by edgeKey. */
  counts?: ReadonlyMap<string, number> | undefined;
  live?: boolean;
  onState?: ((state: string) => void) | undefined;
}

/** The states of a pack with the visits of a run. */
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

/** The window over the picture, with its buttons. */
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

/** A picture that is too wide to be read gets room to be moved about in. */
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
  const followed = useMemo(
    () => new Map((run?.edges ?? []).map((e) => [`${e.state}\n${e.event}`, e.count])),
    [run?.edges],
  );
  const taken = useMemo(() => edgesOf(entry), [entry]);
  const count = (line: Line): number => {
    const special = counts?.get(edgeKey(line.edge)) ?? 0;
    if (line.edge.kind !== "EDGE_KIND_EVENT") {
      return special;
    }
    const { from, event } = line.edge;
    const late = counts?.get(edgeKey({ ...line.edge, kind: "EDGE_KIND_TIMEOUT" })) ?? 0;
    return Math.max(0, (followed.get(`${from}\n${event}`) ?? 0) - late);
  };
  return (
    <svg
      width={box.width}
      height={box.height}
      viewBox={`${view.x} ${view.y} ${box.width / view.scale} ${box.height / view.scale}`}
      className={view.scale < READABLE ? "far" : undefined}
      role="img"
      aria-label={describe(graph, run)}
    >
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
      {picture.lines.map((line) => (
        <Edge
          key={`${line.edge.from} ${line.edge.event} ${line.edge.to} ${line.edge.kind}`}
          line={line}
          box={picture.boxes.find((b) => b.node.name === line.edge.from)}
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

/** As much of a text as has room, in letters of a size. */
function clipped(text: string, room: number, size: number): string {
  const fits = Math.max(3, Math.floor(room / (size * SLIM)));
  return text.length <= fits ? text : `${text.slice(0, fits - 1)}…`;
}

interface EdgeProps {
  line: Line;
  /** The state that it leaves. */
  box: Box | undefined;
  /** How often it was followed; unset: there is no run. */
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
  const text = forced ? "used up" : (edge.event ?? "");
  const bound = edge.maxIterations ? `/${edge.maxIterations}` : "";
  const figure = n === undefined ? "" : n > 0 || (bound && !forced) ? ` ×${n}${bound}` : "";
  const arrow = taken === "refused" ? "arrow-refused" : on ? "arrow-on" : "arrow";
  // From afar only what the record took is named: all names would lie over each other.
  const named = scale >= READABLE || taken !== undefined;
  const size = Math.max(12.5, LETTER / scale);
  return (
    <g
      className={`edge${forced ? " forced" : ""}${used ? " used" : ""}${taken ? ` ${on ? "on" : taken}` : ""}${n === 0 ? " idle" : ""}`}
    >
      <title>{`${text}: ${edge.from} → ${edge.to}${figure}${taken === "refused" ? ", refused" : ""}`}</title>
      <path
        d={box && edge.from === edge.to ? loop(box, label) : curve(points)}
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

interface StateProps {
  box: Box;
  run: Run | undefined;
  live: boolean;
  onState: Props["onState"];
  scale: number;
}

function State({ box, run, live, onState, scale }: StateProps) {
  const { node, x, y, width, height } = box;
  const visits = run?.visits?.[node.name] ?? 0;
  const here = run?.state === node.name;
  const left = x - width / 2;
  const top = y - height / 2;
  const figures = `${run ? visits : "≤"}${node.maxVisits ? `${run ? "/" : ""}${node.maxVisits}` : ""}`;
  return (
    // The table below does the same for the keyboard.
    <g
      className={`state${here ? " here" : ""}${here && live ? " live" : ""}${run && visits === 0 ? " unvisited" : ""}${node.terminal ? " terminal" : ""}${onState && visits ? " clickable" : ""}`}
      onClick={onState && visits ? () => onState(node.name) : undefined}
    >
      <title>{`${node.name}${run || node.maxVisits ? `, visits ${figures}` : ""}${node.prompt ? `, prompt ${node.prompt}` : ""}`}</title>
      {here && live ? (
        <rect
          className="pulse"
          x={left - 4}
          y={top - 4}
          width={width + 8}
          height={height + 8}
          rx="13"
        />
      ) : null}
      <rect className="body" x={left} y={top} width={width} height={height} rx="10" />
      {node.terminal ? (
        <rect
          className="inner"
          x={left + 3.5}
          y={top + 3.5}
          width={width - 7}
          height={height - 7}
          rx="7"
        />
      ) : null}
      {scale < READABLE ? (
        <Far box={box} scale={scale} />
      ) : (
        <Near box={box} figures={run || node.maxVisits ? figures : ""} scale={scale} />
      )}
      {node.maxVisits && run ? (
        <Track box={box} share={Math.min(1, visits / node.maxVisits)} />
      ) : null}
    </g>
  );
}

/** A name in letters that keep their size on the screen, as much of it as has room. */
function Far({ box: { node, x, y, width }, scale }: { box: Box; scale: number }) {
  const size = LETTER / scale;
  return (
    <text
      className="name"
      x={x}
      y={y + size / 3}
      textAnchor="middle"
      style={{ fontSize: size }}
      data-name={node.name}
    >
      {clipped(node.name, width, size)}
    </text>
  );
}

function Near({ box, figures, scale }: { box: Box; figures: string; scale: number }) {
  const { node, x, y, width, height } = box;
  const left = x - width / 2;
  const top = y - height / 2;
  const outside = isOutside(node);
  const small = Math.max(12, LETTER / scale);
  const room = width - (outside ? 31 : 14) - 20 - figures.length * 8;
  return (
    <>
      {outside ? (
        <g className="person" transform={`translate(${left + 14},${top + 12})`}>
          <circle cx="5" cy="3.4" r="3" />
          <path d="M0,13 a5,5.4 0 0 1 10,0z" />
        </g>
      ) : null}
      <text className="name" x={left + (outside ? 31 : 14)} y={top + 24} data-name={node.name}>
        {clipped(node.name, room, 15)}
      </text>
      <text className="sub" x={left + 14} y={top + 42} style={{ fontSize: small }}>
        {clipped(node.prompt ?? "", width - 24, small)}
      </text>
      <text
        className="visits"
        x={left + width - 12}
        y={top + 24}
        textAnchor="end"
        style={{ fontSize: Math.max(13, small) }}
      >
        {figures}
      </text>
    </>
  );
}

function Track({ box: { x, y, width, height }, share }: { box: Box; share: number }) {
  const left = x - width / 2 + 14;
  const top = y + height / 2 - 8;
  return (
    <>
      <rect className="track" x={left} y={top} width={width - 28} height="3" rx="1.5" />
      <rect
        className={share >= 1 ? "fill full" : "fill"}
        x={left}
        y={top}
        width={(width - 28) * share}
        height="3"
        rx="1.5"
      />
    </>
  );
}

/** The same as a table: for the keyboard, for readers, and to copy from. */
function VisitTable({
  graph,
  run,
  onState,
}: {
  graph: Graph;
  run: Run;
  onState: Props["onState"];
}) {
  return (
    <details className="visits-table">
      <summary>Visits as a table</summary>
      <table>
        <thead>
          <tr>
            <th scope="col">State</th>
            <th scope="col">Visits</th>
            <th scope="col">Guard</th>
            <th scope="col">Left by</th>
          </tr>
        </thead>
        <tbody>
          {(graph.nodes ?? []).map((node) => (
            <tr key={node.name} className={run.state === node.name ? "here" : undefined}>
              <th scope="row">
                {onState && run.visits?.[node.name] ? (
                  <button type="button" className="link" onClick={() => onState(node.name)}>
                    {node.name}
                  </button>
                ) : (
                  node.name
                )}
              </th>
              <td>{run.visits?.[node.name] ?? 0}</td>
              <td>
                {node.maxVisits
                  ? `${node.maxVisits}${node.onMaxVisits ? `, then ${node.onMaxVisits}` : ""}`
                  : "none"}
              </td>
              <td>
                {(run.edges ?? [])
                  .filter((e) => e.state === node.name)
                  .map((e) => `${e.event} ×${e.count}`)
                  .join(", ")}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
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
