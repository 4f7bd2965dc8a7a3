import { Component, type ReactNode } from "react";
import { Problem } from "../api/problem";
import { Failure } from "./notices";

/** Shows an error of the page itself in place of an empty page. */
export class Boundary extends Component<{ children: ReactNode }, { fault: Error | undefined }> {
  override state = { fault: undefined };

  static getDerivedStateFromError(fault: Error) {
    return { fault };
  }

  override render() {
    const fault: Error | undefined = this.state.fault;
    if (fault === undefined) {
      return this.props.children;
    }
    const problem = new Problem(500, `The page failed: ${String((fault as Error).message)}`);
    return (
      <main id="main">
        <Failure problem={problem} onRetry={() => this.setState({ fault: undefined })} />
      </main>
    );
  }
}
