import type { ReactNode } from "react";

/** One line of a list of properties. */
export function DetailRow({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
