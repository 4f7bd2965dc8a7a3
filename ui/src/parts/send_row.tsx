import type { Problem } from "../api/problem";

interface Props {
  busy: boolean;
  problem: Problem | undefined;
  verb: string;
  danger?: boolean | undefined;
  /** True: the form must not be sent in the current state. */
  barred?: boolean | undefined;
  onClose: () => void;
}

/** The end of every form: its error, its cancel button and its send button. */
export function SendRow({ busy, problem, verb, danger, barred, onClose }: Props) {
  return (
    <>
      {problem ? (
        <p className="field-problem" role="alert">
          {problem.message}
        </p>
      ) : null}
      <div className="dialog-foot">
        <button type="button" className="button" onClick={onClose}>
          Back
        </button>
        <button
          type="submit"
          className={`button ${danger ? "danger solid" : "primary"}`}
          disabled={busy || barred}
        >
          {busy ? "Sending…" : verb}
        </button>
      </div>
    </>
  );
}
