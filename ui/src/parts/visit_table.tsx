import type { Graph, Run } from "../api/types";

/** Shows the graph as a table, for keyboards and screen readers, and to copy from. */
export function VisitTable({
  graph,
  run,
  onState,
}: {
  graph: Graph;
  run: Run;
  onState: ((state: string) => void) | undefined;
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
