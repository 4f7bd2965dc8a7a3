import { useState } from "react";
import { post } from "../api/client";
import { asProblem, type Problem } from "../api/problem";

/** Sends once; a repeat after a lost answer has the same id and so no second effect. */
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
