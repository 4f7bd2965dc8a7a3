// What somebody writes against the generated types. Lines that must not compile say so.
import type { components, paths } from "./pawl.js";

type Start = paths["/v1/runs"]["post"]["requestBody"]["content"]["application/json"];
type Emit = paths["/v1/runs/{run_id}/events"]["post"]["requestBody"]["content"]["application/json"];
type Problem = paths["/v1/runs"]["post"]["responses"]["default"]["content"]["application/json"];
type Query = NonNullable<paths["/v1/runs"]["get"]["parameters"]["query"]>;

export const start: Start = { pack: "p", execution: "EXECUTION_CALLER", variables: { goal: "x", n: 1 } };
export const agent: Start = { pack: "p", execution: "EXECUTION_WORKERS", agent: "a", variablesJson: "{}" };
// @ts-expect-error: execution is required
export const lacks: Start = { pack: "p" };
// @ts-expect-error: no such execution
export const wrong: Start = { pack: "p", execution: "EXECUTION_NOBODY" };
export const emit: Emit = { event: "Go", artifacts: [{ name: "a", value: { text: "x" } }], expectedSeq: "7" };
// @ts-expect-error: event is required, the run is in the path
export const empty: Emit = {};
export const query: Query = { "filter.labels": { team: "a" }, "filter.statuses": ["RUN_STATUS_WAITING"] };
export const seqOf = (run: components["schemas"]["pawl.v1.Run"]) => run.seq ?? 0;
export const reasonOf = (problem: Problem) => problem.message ?? "";
export const stream = "text/event-stream" satisfies keyof paths["/v1/transitions:stream"]["get"]["responses"]["200"]["content"];
