import {
  type KeyboardEvent,
  type PointerEvent,
  useCallback,
  useEffect,
  useRef,
  useState,
} from "react";
import type { Point } from "./layout";

/** The visible part of a graph: its top left point, and pixels per unit. */
export interface View extends Point {
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

/** Bounds of the scale, and the least scale at which all text can be read. */
const LEAST = 0.08;
const MOST = 3;
export const READABLE = 0.8;

/** Pixels of one step of an arrow key, and the factor of one zoom step. */
const STEP = 60;
const FACTOR = 1.25;

/** A pointer that moved less than so many pixels has clicked. */
const CLICK = 4;

const bounded = (scale: number): number => Math.min(MOST, Math.max(LEAST, scale));

export function fitOf(picture: Size, box: Size): View {
  const scale = Math.min(1.15, box.width / picture.width, box.height / picture.height);
  return around({ x: picture.width / 2, y: picture.height / 2 }, scale, box);
}

/** Returns the view with a point of the picture in its middle. */
export function around(at: Point, scale: number, box: Size): View {
  return { scale, x: at.x - box.width / 2 / scale, y: at.y - box.height / 2 / scale };
}

/**
 * Returns the view at another scale that keeps a place of the box (in pixels) over the same point.
 */
export function zoomed(view: View, scale: number, place: Point): View {
  const next = bounded(scale);
  return {
    scale: next,
    x: view.x + place.x / view.scale - place.x / next,
    y: view.y + place.y / view.scale - place.y / next,
  };
}

/**
 * A window over a picture, moved by dragging and arrow keys, and zoomed by buttons, keys and the
 * wheel. It begins with the whole picture, or around `focus` if that could not be read.
 */
export function useViewport(picture: Size, box: Size, focus: Point | undefined) {
  const node = useRef<HTMLDivElement>(null);
  const initial = useCallback((): View => {
    const fit = fitOf(picture, box);
    return fit.scale >= READABLE || !focus ? fit : held(around(focus, READABLE, box), picture, box);
  }, [picture, box, focus]);
  const [own, setOwn] = useState<View>();
  const view = own ?? initial();
  const latest = useRef(view);
  latest.current = view;
  const zoom = useCallback(
    (factor: number, place?: Point) =>
      setOwn(
        zoomed(
          latest.current,
          latest.current.scale * factor,
          place ?? { x: box.width / 2, y: box.height / 2 },
        ),
      ),
    [box],
  );
  const move = useCallback((dx: number, dy: number) => {
    const { scale, x, y } = latest.current;
    setOwn({ scale, x: x + dx / scale, y: y + dy / scale });
  }, []);
  const fit = useCallback(() => setOwn(fitOf(picture, box)), [picture, box]);
  const reset = useCallback(() => setOwn(undefined), []);
  useWheel(node, zoom);
  const drag = useDrag(move);
  const onKeyDown = (event: KeyboardEvent) => {
    const act = {
      ArrowLeft: () => move(-STEP, 0),
      ArrowRight: () => move(STEP, 0),
      ArrowUp: () => move(0, -STEP),
      ArrowDown: () => move(0, STEP),
      "+": () => zoom(FACTOR),
      "=": () => zoom(FACTOR),
      "-": () => zoom(1 / FACTOR),
      "0": fit,
    }[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act();
    }
  };
  return { node, view, zoom, fit, reset, moved: own !== undefined, drag, onKeyDown, FACTOR };
}

/** Keeps a view within its picture if the picture is larger than the box. */
function held(view: View, picture: Size, box: Size): View {
  const within = (at: number, whole: number, seen: number) =>
    whole <= seen ? (whole - seen) / 2 : Math.min(Math.max(at, 0), whole - seen);
  return {
    scale: view.scale,
    x: within(view.x, picture.width, box.width / view.scale),
    y: within(view.y, picture.height, box.height / view.scale),
  };
}

/** The wheel zooms with Ctrl, or while the picture has the focus; otherwise it scrolls the page. */
function useWheel(
  node: React.RefObject<HTMLDivElement | null>,
  zoom: (factor: number, place: Point) => void,
): void {
  useEffect(() => {
    const box = node.current;
    const turn = (event: WheelEvent) => {
      if (!box || !(event.ctrlKey || event.metaKey || box.contains(document.activeElement))) {
        return;
      }
      event.preventDefault();
      const { left, top } = box.getBoundingClientRect();
      zoom(2 ** (-event.deltaY / 400), { x: event.clientX - left, y: event.clientY - top });
    };
    // React's listener is passive, so it could not prevent the page from scrolling.
    box?.addEventListener("wheel", turn, { passive: false });
    return () => box?.removeEventListener("wheel", turn);
  }, [node, zoom]);
}

function useDrag(move: (dx: number, dy: number) => void) {
  const from = useRef<(Point & { far: boolean; id: number }) | undefined>(undefined);
  return {
    onPointerDown: (event: PointerEvent) => {
      if (event.button === 0) {
        from.current = { x: event.clientX, y: event.clientY, far: false, id: event.pointerId };
      }
    },
    onPointerMove: (event: PointerEvent<HTMLElement>) => {
      const start = from.current;
      if (!start || start.id !== event.pointerId) {
        return;
      }
      const dx = event.clientX - start.x;
      const dy = event.clientY - start.y;
      if (!start.far && Math.hypot(dx, dy) < CLICK) {
        return;
      }
      if (!start.far) {
        // Only now, because a captured pointer would prevent clicks.
        event.currentTarget.setPointerCapture(event.pointerId);
      }
      from.current = { x: event.clientX, y: event.clientY, far: true, id: start.id };
      move(-dx, -dy);
    },
    onPointerUp: () => {
      from.current = undefined;
    },
    onPointerCancel: () => {
      from.current = undefined;
    },
  };
}
