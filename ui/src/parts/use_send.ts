import { useState } from "react";
import { post } from "../api/client";
import { asProblem, type Problem } from "../api/problem";

/**
 * Sends a request once. A repetition after a lost answer has the same id, so it has no second
 * effect.
 */
export function useSend(onDone: () => void) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const send = async (path: string, body: unknown) => {
    setBusy(true);
    setProblem(undefined);
    try {
      await post(path, body);
      onDone();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  const forget = () => setProblem(undefined);
  return { busy, problem, send, forget };
}
