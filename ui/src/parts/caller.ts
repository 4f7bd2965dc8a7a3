import { createContext, useContext } from "react";
import type { Caller } from "../api/types";

export const CallerContext = createContext<Caller>({ principal: "" });

/** Whether the caller has a scope; admin has every one. */
export function useMay(): (scope: string) => boolean {
  const { scopes = [] } = useContext(CallerContext);
  return (scope) => scopes.includes(scope) || scopes.includes("admin");
}
