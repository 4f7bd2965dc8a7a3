import { useMemo } from "react";
import type { Entry, Graph, Run } from "../api/types";
import { type Box, curve, isOutside, type Line, loop, place } from "./layout";

interface Props {
  graph: Graph;
  /** The run whose visits are shown; none: the pack as it is. */
  run?: Run | undefined;
  /** The record that is looked at; its edge is marked. */
  entry?: Entry | undefined;
  live?: boolean;
  /** Width of the place for the picture by its height. */
  aspect?: number;
  onState?: (state: string) => void;
}

/** The states of a pack with the visits of a run. */
export function GraphView({ graph, run, entry, live = false, aspect = 1.7, onState }: Props) {
  const picture = useMemo(() => place(graph, aspect), [graph, aspect]);
  const counts = useMemo(
    () => new Map((run?.edges ?? []).map((e) => [`${e.state}\n${e.event}`, e.count])),
    [run?.edges],
  );
  const marked = entry?.kind === "transition" ? `${entry.body.from}\n${entry.body.event}` : "";
  const count = (line: Line) =>
    line.edge.event ? (counts.get(`${line.edge.from}\n${line.edge.event}`) ?? 0) : 0;
  return (
    <div className="graph">
      <svg
        viewBox={`0 0 ${picture.width} ${picture.height}`}
        style={{ maxWidth: picture.width * 1.15 }}
        role="img"
        aria-label={describe(graph, run)}
      >
        <defs>
          <marker
            id="arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto"
          >
            <path d="M0,0.6 7.4,4 0,7.4z" className="arrow" />
          </marker>
          <marker
            id="arrow-on"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto"
          >
            <path d="M0,0.6 7.4,4 0,7.4z" className="arrow on" />
          </marker>
        </defs>
        {picture.lines.map((line) => {
          const n = count(line);
          const on = `${line.edge.from}\n${line.edge.event}` === marked;
          return (
            <Edge
              key={`${line.edge.from} ${line.edge.event} ${line.edge.to} ${line.edge.kind}`}
              line={line}
              box={picture.boxes.find((b) => b.node.name === line.edge.from)}
              n={run ? n : undefined}
              on={on}
            />
          );
        })}
        {picture.boxes.map((box) => (
          <State key={box.node.name} box={box} run={run} live={live} onState={onState} />
        ))}
      </svg>
      {run ? <VisitTable graph={graph} run={run} onState={onState} /> : null}
    </div>
  );
}

interface EdgeProps {
  line: Line;
  /** The state that it leaves. */
  box: Box | undefined;
  /** How often it was followed; unset: there is no run. */
  n: number | undefined;
  on: boolean;
}

function Edge({ line, box, n, on }: EdgeProps) {
  const { edge, points, label } = line;
  const forced = edge.kind === "EDGE_KIND_MAX_VISITS";
  const used = n !== undefined && n > 0;
  const text = forced ? "used up" : (edge.event ?? "");
  const bound = edge.maxIterations ? `/${edge.maxIterations}` : "";
  const figure = n === undefined || forced ? "" : n > 0 || bound ? ` ×${n}${bound}` : "";
  return (
    <g
      className={`edge${forced ? " forced" : ""}${used ? " used" : ""}${on ? " on" : ""}${n === 0 ? " idle" : ""}`}
    >
      <path
        d={box && edge.from === edge.to ? loop(box, label) : curve(points)}
        markerEnd={on ? "url(#arrow-on)" : "url(#arrow)"}
      />
      <text x={label.x} y={label.y + 4} textAnchor="middle">
        {edge.kind === "EDGE_KIND_TIMEOUT" ? "◷ " : ""}
        {text}
        <tspan className="figure">{figure}</tspan>
      </text>
    </g>
  );
}

function State({
  box,
  run,
  live,
  onState,
}: {
  box: Box;
  run: Run | undefined;
  live: boolean;
  onState: Props["onState"];
}) {
  const { node, x, y, width, height } = box;
  const visits = run?.visits?.[node.name] ?? 0;
  const here = run?.state === node.name;
  const left = x - width / 2;
  const top = y - height / 2;
  const outside = isOutside(node);
  const share = node.maxVisits ? Math.min(1, visits / node.maxVisits) : 0;
  return (
    // The table below does the same for the keyboard.
    <g
      className={`state${here ? " here" : ""}${here && live ? " live" : ""}${run && visits === 0 ? " unvisited" : ""}${node.terminal ? " terminal" : ""}${onState && visits ? " clickable" : ""}`}
      onClick={onState && visits ? () => onState(node.name) : undefined}
    >
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
      {outside ? (
        <g className="person" transform={`translate(${left + 14},${top + 12})`}>
          <circle cx="5" cy="3.4" r="3" />
          <path d="M0,13 a5,5.4 0 0 1 10,0z" />
        </g>
      ) : null}
      <text className="name" x={left + (outside ? 31 : 14)} y={top + 24}>
        {node.name}
      </text>
      <text className="sub" x={left + 14} y={top + 42}>
        {node.prompt}
      </text>
      {run || node.maxVisits ? (
        <text className="visits" x={left + width - 12} y={top + 24} textAnchor="end">
          {run ? visits : "≤"}
          {node.maxVisits ? `${run ? "/" : ""}${node.maxVisits}` : ""}
        </text>
      ) : null}
      {node.maxVisits && run ? (
        <>
          <rect
            className="track"
            x={left + 14}
            y={top + height - 8}
            width={width - 28}
            height="3"
            rx="1.5"
          />
          <rect
            className={share >= 1 ? "fill full" : "fill"}
            x={left + 14}
            y={top + height - 8}
            width={(width - 28) * share}
            height="3"
            rx="1.5"
          />
        </>
      ) : null}
    </g>
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
