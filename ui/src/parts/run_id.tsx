/** Characters at which the middle of an id begins and ends; the time of a run is at its front. */
const FRONT = 10;
const BACK = 6;

/**
 * Shows an id without its middle. Selection, copy, hover text and screen readers have the whole id.
 */
export function RunId({ id }: { id: string }) {
  if (id.length <= FRONT + BACK + 2) {
    return <span className="mono">{id}</span>;
  }
  return (
    <span className="run-id mono" title={id}>
      {id.slice(0, FRONT)}
      <span className="run-id-middle">{id.slice(FRONT, -BACK)}</span>
      <b>{id.slice(-BACK)}</b>
    </span>
  );
}
