"""The person who decides. Nothing else takes a run out of `await_approval`.

Usage: PAWL_ADDR=... PAWL_TOKEN=... human.py RUN [{approve,reject} --seq SEQ [--why WHY]]

Without a decision it shows what is proposed, and the SEQ of that proposal. There is one
decision on each: a second click is told the first one's result, another decision is too
late, and so is one on an earlier proposal.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from pawl_client import Client, IdReusedError, PermissionDeniedError, Run, SeqMismatchError

EVENTS = {"approve": "Approved", "reject": "Rejected"}


def show(run: Run) -> None:
    """What is proposed, and how to decide on it."""
    print(json.dumps(run.artifacts().get("proposed_fix")))
    print(f"decide: human.py {run.id} {{approve,reject}} --seq {run.info().visit_seq}")


def decide(run: Run, decision: str, seq: int, why: str) -> int:
    """Emits the event of the decision, under the id that all decisions on a proposal
    share; returns the exit code."""
    log = {"diagnosis_log": {"person": why}} if why else {}
    try:
        outcome = run.emit(
            EVENTS[decision], artifacts=log, expected_seq=seq, event_id=f"decision-{seq}"
        )
    except IdReusedError:
        print("too late: it was decided otherwise")
        return 3
    except SeqMismatchError as error:
        by = f", {error.principal} was first with {error.event}" if error.event else ""
        print(f"too late: the run moved on, at seq {error.seq}{by}")
        return 3
    except PermissionDeniedError as error:
        print(f"refused: {error.message}")
        return 4
    print(f"{EVENTS[decision]} → {outcome.state}{', as before' if outcome.duplicate else ''}")
    return 0


def main() -> int:
    """Shows or decides."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("run")
    parser.add_argument("decision", nargs="?", choices=EVENTS)
    parser.add_argument("--seq", type=int, default=0)
    parser.add_argument("--why", default="")
    given = parser.parse_args()
    if given.decision and given.seq < 1:
        parser.error("a decision needs the --seq that was shown")
    with Client(address=os.environ["PAWL_ADDR"], token=os.environ["PAWL_TOKEN"]) as client:
        run = client.attach(given.run)
        if given.decision:
            return decide(run, given.decision, given.seq, given.why)
        show(run)
        return 0


if __name__ == "__main__":
    sys.exit(main())
