import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Route, Switch } from "wouter";
import { get, token } from "./api/client";
import { asProblem } from "./api/problem";
import type { Caller } from "./api/types";
import { ApprovalsPage } from "./pages/approvals";
import { BudgetsPage } from "./pages/budgets";
import { ChatPage } from "./pages/chat";
import { CheckPage } from "./pages/check";
import { DeliveriesPage } from "./pages/deliveries";
import { PackPage } from "./pages/pack";
import { PacksPage } from "./pages/packs";
import { RunPage } from "./pages/run";
import { RunsPage } from "./pages/runs";
import { SignIn } from "./pages/sign_in";
import { StartPage } from "./pages/start";
import { WorkersPage } from "./pages/workers";
import { CallerContext } from "./parts/caller";
import { Failure, Loading, NotFound } from "./parts/notices";
import { Shell } from "./parts/shell";

/**
 * The frame of every page. It reads the caller's identity first, and requests a token if the
 * sidecar requires one.
 */
export function App() {
  const queries = useQueryClient();
  const [refused, setRefused] = useState("");
  const caller = useQuery({
    queryKey: ["caller"],
    queryFn: ({ signal }) => get<Caller>("/v1/caller", {}, signal),
  });
  const signIn = (secret: string) => {
    token.set(secret);
    setRefused(secret);
    queries.clear();
    void caller.refetch();
  };
  const signOut = () => {
    token.clear();
    setRefused("");
    queries.clear();
    void caller.refetch();
  };
  if (caller.error) {
    const problem = asProblem(caller.error);
    return problem.signedOut ? (
      <SignIn onToken={signIn} problem={refused === "" ? undefined : problem} />
    ) : (
      <main className="alone">
        <Failure problem={problem} onRetry={() => void caller.refetch()} />
      </main>
    );
  }
  if (!caller.data) {
    return (
      <main className="alone">
        <Loading what="Connecting to the sidecar" />
      </main>
    );
  }
  return (
    <CallerContext value={caller.data}>
      <Shell onSignOut={token.get() === "" ? undefined : signOut}>
        <Switch>
          <Route path="/" component={RunsPage} />
          <Route path="/runs" component={RunsPage} />
          <Route path="/runs/:id">{({ id }) => <RunPage key={id} id={id} />}</Route>
          <Route path="/chat">
            <ChatPage />
          </Route>
          <Route path="/chat/:id">{({ id }) => <ChatPage key={id} id={id} />}</Route>
          <Route path="/start" component={StartPage} />
          <Route path="/approvals" component={ApprovalsPage} />
          <Route path="/budgets" component={BudgetsPage} />
          <Route path="/workers" component={WorkersPage} />
          <Route path="/deliveries" component={DeliveriesPage} />
          <Route path="/packs" component={PacksPage} />
          <Route path="/check" component={CheckPage} />
          <Route path="/packs/:ref">{({ ref }) => <PackPage key={ref} reference={ref} />}</Route>
          <Route>
            <NotFound />
          </Route>
        </Switch>
      </Shell>
    </CallerContext>
  );
}
