import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get } from "../api/client";
import type { Approval, Run } from "../api/types";
import { DecideForm } from "./decide_form";

export interface ApprovalList {
  approvals?: Approval[];
  nextPageToken?: string;
}

/** Shows the run's held calls, each with a link to its decision. */
export function PendingApprovals({ run }: { run: Run }) {
  const [open, setOpen] = useState<Approval>();
  const request = useQuery({
    queryKey: ["approvals", run.runId, run.seq],
    queryFn: ({ signal }) => get<ApprovalList>("/v1/approvals", { runId: run.runId }, signal),
    placeholderData: (before) => before,
  });
  const held = (request.data?.approvals ?? []).filter((a) => a.call);
  return (
    <>
      {held.map((a) => (
        <button
          type="button"
          key={a.call?.step}
          className="button primary"
          onClick={() => setOpen(a)}
        >
          Decide {a.call?.tool} #{a.call?.step}
        </button>
      ))}
      {open ? (
        <DecideForm
          approval={open}
          waiting={held.some((a) => a.call?.step === open.call?.step)}
          onClose={() => setOpen(undefined)}
        />
      ) : null}
    </>
  );
}
