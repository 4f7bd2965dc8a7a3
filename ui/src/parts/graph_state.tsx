import type { Run } from "../api/types";
import { type Box, isOutside } from "./layout";
import { READABLE } from "./use_viewport";

/** Least size of letters on the screen in pixels, and their width relative to their height. */
export const LETTER_WIDTH = 11.5;
const SLIM = 0.58;

/** Returns as much of a text as fits, for letters of a size. */
function clipped(text: string, room: number, size: number): string {
  const fits = Math.max(3, Math.floor(room / (size * SLIM)));
  return text.length <= fits ? text : `${text.slice(0, fits - 1)}…`;
}

interface StateProps {
  box: Box;
  run: Run | undefined;
  live: boolean;
  onState: ((state: string) => void) | undefined;
  scale: number;
}

/** A state of the graph: only its name if zoomed out, all its properties if zoomed in. */
export function State({ box, run, live, onState, scale }: StateProps) {
  const { node, x, y, width, height } = box;
  const visits = run?.visits?.[node.name] ?? 0;
  const here = run?.state === node.name;
  const left = x - width / 2;
  const top = y - height / 2;
  const figures = `${run ? visits : "≤"}${node.maxVisits ? `${run ? "/" : ""}${node.maxVisits}` : ""}`;
  return (
    // The table below offers the same by keyboard.
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

/** A name in letters of constant size on the screen, cut to the available room. */
function Far({ box: { node, x, y, width }, scale }: { box: Box; scale: number }) {
  const size = LETTER_WIDTH / scale;
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
  const small = Math.max(12, LETTER_WIDTH / scale);
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
