import { type ReactNode, useContext } from "react";
import { Link, useLocation } from "wouter";
import { CallerContext } from "./caller";
import { Logo } from "./logo";
import { type Theme, useTheme } from "./theme";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

/** Bar with the ways to every page, around the page. */
export function Shell({ children, onSignOut }: { children: ReactNode; onSignOut?: () => void }) {
  const { principal } = useContext(CallerContext);
  const [theme, setTheme] = useTheme();
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="bar">
        <Link href="/" className="brand" aria-label="Pawl, all runs">
          <Logo />
          <span>Pawl</span>
        </Link>
        <nav aria-label="Pages">
          <Way to="/" also="/runs">
            Runs
          </Way>
          <Way to="/approvals">Approvals</Way>
          <Way to="/budgets">Budgets</Way>
          <Way to="/packs">Packs</Way>
          <Way to="/workers">Workers</Way>
          <Way to="/deliveries">Deliveries</Way>
          <Way to="/check">Check</Way>
        </nav>
        <div className="bar-end">
          <span className="principal" title={`Signed in as ${principal}`}>
            {principal}
          </span>
          <button
            type="button"
            className="button quiet"
            onClick={() => setTheme(NEXT[theme])}
            aria-label={`Theme: ${theme}. Change to ${NEXT[theme]}`}
          >
            <span aria-hidden="true">
              {theme === "system" ? "◐" : theme === "light" ? "○" : "●"}
            </span>
          </button>
          {onSignOut ? (
            <button type="button" className="button quiet" onClick={onSignOut}>
              Sign out
            </button>
          ) : null}
        </div>
      </header>
      {children}
    </>
  );
}

function Way({ to, also, children }: { to: string; also?: string; children: ReactNode }) {
  const [at] = useLocation();
  const here = to === "/" ? at === "/" || at.startsWith(also ?? "/") : at.startsWith(to);
  return (
    <Link href={to} className={here ? "way here" : "way"} aria-current={here ? "page" : undefined}>
      {children}
    </Link>
  );
}
