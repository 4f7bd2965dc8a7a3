import { type FormEvent, useState } from "react";
import type { Problem } from "../api/problem";
import { Logo } from "../parts/logo";

/** Requests a bearer token, which stays in this tab. */
export function SignIn({
  onToken,
  problem,
}: {
  onToken: (token: string) => void;
  problem?: Problem | undefined;
}) {
  const [secret, setSecret] = useState("");
  const send = (event: FormEvent) => {
    event.preventDefault();
    if (secret.trim() !== "") {
      onToken(secret.trim());
    }
  };
  return (
    <main className="alone" id="main">
      <form className="card sign-in" onSubmit={send}>
        <Logo />
        <h1>Sign in to Pawl</h1>
        <p className="muted">This sidecar requires a bearer token. Only this tab stores it.</p>
        <label htmlFor="token">Token</label>
        <input
          id="token"
          type="password"
          autoComplete="off"
          value={secret}
          onChange={(e) => setSecret(e.target.value)}
          aria-describedby={problem ? "token-problem" : undefined}
        />
        {problem ? (
          <p className="field-problem" id="token-problem" role="alert">
            {problem.message}
          </p>
        ) : null}
        <button type="submit" className="button primary" disabled={secret.trim() === ""}>
          Sign in
        </button>
      </form>
    </main>
  );
}
