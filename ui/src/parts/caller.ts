import { createContext, useContext } from "react";
import type { Caller } from "../api/types";

export const CallerContext = createContext<Caller>({ principal: "" });

/** Returns a check whether the caller has a scope; admin includes all scopes. */
export function useMay(): (scope: string) => boolean {
  const { scopes = [] } = useContext(CallerContext);
  return (scope) => scopes.includes(scope) || scopes.includes("admin");
}
