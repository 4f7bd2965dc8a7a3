import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Problem } from "../api/problem";

/** Shows that content is loading, after a short delay so that it does not flash. */
export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <div className="notice loading" role="status">
      <span className="spinner" aria-hidden="true" />
      {what}…
    </div>
  );
}

/** Shows that a list is empty, and how to fill it. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="notice empty">
      <p className="notice-title">{title}</p>
      {children ? <div className="muted">{children}</div> : null}
    </div>
  );
}

/** Shows an error with its reason, and a button that tries again. */
export function Failure({ problem, onRetry }: { problem: Problem; onRetry?: () => void }) {
  return (
    <div className="notice failure" role="alert">
      <p className="notice-title">
        {problem.status === 0 ? "No connection" : "The request failed"}
      </p>
      <p>{problem.message}</p>
      {problem.reason ? <p className="mono muted">{problem.reason}</p> : null}
      {onRetry ? (
        <button type="button" className="button" onClick={onRetry}>
          Try again
        </button>
      ) : null}
    </div>
  );
}

export function NotFound() {
  return (
    <main id="main">
      <Empty title="Page not found">
        <Link href="/">Go to the runs</Link>
      </Empty>
    </main>
  );
}
