import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { asProblem } from "./api/problem";
import { App } from "./app";
import { Boundary } from "./parts/boundary";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/pages.css";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // Records never change; other data is followed or read again.
      staleTime: 30_000,
      refetchOnWindowFocus: false,
      retry: (count, error) => count < 3 && asProblem(error).transient,
      retryDelay: (count) => Math.min(250 * 2 ** count, 2_000),
    },
  },
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <Router base="/ui">
          <Boundary>
            <App />
          </Boundary>
        </Router>
      </QueryClientProvider>
    </StrictMode>,
  );
}
