import { type ReactNode, useContext } from "react";
import { Link, useLocation } from "wouter";
import { CallerContext } from "./caller";
import { Logo } from "./logo";
import { type Theme, useTheme } from "./theme";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

/** The bar with links to every page, around the page. */
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
          <NavLink to="/" also="/runs">
            Runs
          </NavLink>
          <NavLink to="/chat">Chat</NavLink>
          <NavLink to="/approvals">Approvals</NavLink>
          <NavLink to="/budgets">Budgets</NavLink>
          <NavLink to="/packs">Packs</NavLink>
          <NavLink to="/workers">Workers</NavLink>
          <NavLink to="/deliveries">Deliveries</NavLink>
          <NavLink to="/check">Check</NavLink>
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

function NavLink({ to, also, children }: { to: string; also?: string; children: ReactNode }) {
  const [at] = useLocation();
  const here = to === "/" ? at === "/" || at.startsWith(also ?? "/") : at.startsWith(to);
  return (
    <Link href={to} className={here ? "way here" : "way"} aria-current={here ? "page" : undefined}>
      {children}
    </Link>
  );
}
