"""Start the self-correcting pack, run its turns, print the trace."""

from pathlib import Path

from pawl_client import Ended, Reply, Transition, Turn
from pawl_client.testing import Sidecar

PACK = Path(__file__).parents[2] / "testdata/packs/rfc0009-3-self-correcting.json"


def model(turn: Turn) -> Reply:
    """Stands in for a model: fails once, then succeeds."""
    print(f"  {turn.state}, visit {turn.visit}: {turn.system_prompt.splitlines()[-1]}")
    if turn.terminal:
        return Reply(output="The task is done.")
    if turn.visit == 1:
        return Reply(event="Error", artifacts={"error_summary": "E2BIG: list too long"})
    return Reply(event="Success")


def main() -> None:
    """Runs it, and prints what happened."""
    with Sidecar(packs=[PACK]) as sidecar, sidecar.client() as client:
        result = client.run("self-correcting", model, input="Sort the list.")
        for record in client.attach(result.run.run_id).transitions():
            match record.body:
                case Transition(from_state=source, event=event, to_state=to):
                    print(f"{record.seq:>3}  {source or '-':<10} {event or '(start)':<10} -> {to}")
                case Ended(status=status, reason=reason):
                    print(f"{record.seq:>3}  {status} ({reason})")


if __name__ == "__main__":
    main()
