"""The verbs by which people control a run."""

from datetime import datetime, timedelta, timezone
from typing import Any

from canon import canon

import pawl_client

Args = dict[str, Any]


class Control:
    """Remembers the digests of the calls that were looked at."""

    def __init__(self, client: pawl_client.Client) -> None:
        self._client = client
        self._digests: dict[tuple[str, int], str] = {}

    def approvals(self, run: pawl_client.Run) -> Any:
        found = list(self._client.list_approvals(run_id=run.id))
        for one in found:
            if one.call is not None and one.call.approval is not None:
                self._digests[run.id, one.call.step] = one.call.approval.digest
        return {"approvals": [canon(one) for one in found]}

    def decide(self, run: pawl_client.Run, args: Args) -> Any:
        step, expires = args["step"], args.get("expires")
        return canon(
            run.decide_step(
                step,
                args.get("digest") or self._digests.get((run.id, step), ""),
                args["decision"],
                payload=args.get("payload"),
                reason=args.get("reason", ""),
                expires=datetime.now(timezone.utc) + timedelta(seconds=expires)
                if expires
                else None,
                request_id=args.get("id", ""),
            )
        )


def steer(run: pawl_client.Run, args: Args) -> Any:
    """Says something to the run."""
    when = args.get("when", "NEXT_MODEL_CALL")
    return canon(run.steer(args.get("text", ""), when=when, request_id=args.get("id", "")))


def stop_run(run: pawl_client.Run, args: Args) -> Any:
    """Puts away what the run is at."""
    return canon(run.stop(args.get("note", ""), request_id=args.get("id", "")))


def raise_budget(run: pawl_client.Run, args: Args) -> Any:
    """Lets the run consume more."""
    return canon(
        run.raise_budget(
            args.get("reason", ""),
            max_cost_micro_usd=args.get("max_cost_micro_usd", 0),
            max_tokens=args.get("max_tokens", 0),
            request_id=args.get("id", ""),
        )
    )
