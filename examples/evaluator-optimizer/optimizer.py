"""RFC 0003's generate -> evaluate -> retry: a model drafts, three agents evaluate each draft
at once, and the pack bounds how often it goes round.

The drafts are recorded; the evaluators really evaluate them. The second run's model never
learns, and ends where the retries are used up. The types are those of the pack, by
`pawl codegen --out evaluator_optimizer.py evaluator-optimizer.pack.yaml`.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pawl_client import (
    Ended,
    FailTurnError,
    Record,
    Reply,
    StepFailedError,
    Transition,
    Worker,
)
from pawl_client.testing import Sidecar

import evaluator_optimizer as pack

PACK = Path(__file__).with_name("evaluator-optimizer.pack.yaml")
TASK = "dates like 2024-02-29"
EVALUATORS = ("accepts", "rejects", "portable")
# What a model answered, visit by visit.
LEARNS = (
    r"\d+-\d+-\d+",
    r"(?!0000)\d{4}-(0[1-9]|1[0-2])-\d\d",
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
)
STUBBORN = (LEARNS[0],) * 9

GOOD = ("2024-02-29", "1999-12-31", "2000-01-01")
BAD = ("2024-13-01", "2024-00-10", "2024-01-32", "1-2-3")


def generate(drafts: tuple[str, ...], turn: pack.GeneratorTurn) -> pack.GeneratorReply:
    """The draft that the model wrote at this visit."""
    return pack.GeneratorReply(event="Drafted", artifacts={"draft": drafts[turn.visit - 1]})


async def judge(turn: pack.AsyncJudgeTurn) -> pack.JudgeReply:
    """Asks all evaluators, then waits for all; one that fails costs only its own verdict."""
    draft = turn.system_prompt.split("Draft: ")[1].rstrip("\n")
    answers = await asyncio.gather(
        turn.step("accepts", {"message": draft}),
        turn.step("rejects", {"message": draft}),
        turn.step("portable", {"message": draft}),
        return_exceptions=True,
    )
    verdicts = [verdict(*both) for both in zip(EVALUATORS, answers, strict=True)]
    accepted = all(given.get("passed") for given in verdicts)
    return pack.JudgeReply(
        event="Accepted" if accepted else "Retry", artifacts={"verdicts": verdicts}
    )


def verdict(name: str, answer: Any) -> dict[str, Any]:
    """What an evaluator said, or that it could not say anything."""
    if isinstance(answer, StepFailedError):
        return {"by": name, "failed": answer.reason}
    if isinstance(answer, BaseException):
        raise answer
    return {"by": name, **answer["output"]}


def accepts(turn: pack.AcceptsTurn) -> pack.AcceptsReply:
    """Fails a draft for what it does not match."""
    missed = [text for text in GOOD if not re.fullmatch(turn.variables["draft"], text)]
    return opinion("misses", missed)


def rejects(turn: pack.RejectsTurn) -> pack.RejectsReply:
    """Fails a draft for what it matches all the same."""
    matched = [text for text in BAD if re.fullmatch(turn.variables["draft"], text)]
    return opinion("matches", matched)


def portable(turn: pack.PortableTurn) -> pack.PortableReply:
    """Knows nothing of lookarounds, and says so."""
    if "(?" in turn.variables["draft"]:
        raise FailTurnError("LOOKAROUND", "not every engine has them", reject=True)
    return opinion("uses", [])


def opinion(verb: str, faults: list[str]) -> pack.AcceptsReply:
    """What an evaluator answers with."""
    return pack.AcceptsReply(
        output=[{"passed": not faults, "why": f"{verb} {', '.join(faults) or 'none'}"}]
    )


def worker_of(
    address: str,
    drafts: tuple[str, ...],
    accepts: Callable[[Any], Reply] = accepts,
) -> Worker:
    """Executes the turns of all agents; four at once, as the judge waits for three."""
    worker = Worker(address=address, turns=4)
    worker.prompt("generator")(lambda turn: generate(drafts, turn))
    worker.prompt("judge")(judge)
    worker.prompt("accepts")(accepts)
    worker.prompt("rejects")(rejects)
    worker.prompt("portable")(portable)
    worker.prompt("closer")(lambda turn: Reply(output=turn.system_prompt))
    return worker


async def optimize(sidecar: Sidecar, worker: Worker) -> pack.AsyncRun:
    """Starts a run, and prints what happens until it has ended."""
    serving = asyncio.create_task(worker.serve())
    async with sidecar.async_client() as client:
        run: pack.AsyncRun = await client.start(pack.PACK, variables={"task": TASK})
        async for record in run.transitions():
            show(record)
        worker.stop()
        await serving
    return run


def show(record: Record) -> None:
    """Prints what a record says."""
    match record.body:
        case Transition(to_state=to, visit=visit, redirects=redirects, artifacts_written=written):
            values: dict[str, Any] = {write.name: write.value for write in written}
            if "verdicts" in values:
                print("  " + "; ".join(map(said, values["verdicts"])))
            for redirect in redirects:
                print(f"  not {redirect.state}: {redirect.guard}")
            print(f"→ {to} ({visit}) {values.get('draft', '')}".rstrip())
        case Ended(status=status, reason=reason):
            print(f"■ {status.name} ({reason})")


def said(verdict: dict[str, Any]) -> str:
    """A verdict in a few words."""
    if "failed" in verdict:
        return f"{verdict['by']} FAILED ({verdict['failed']})"
    return f"{verdict['by']}: {'ok' if verdict['passed'] else verdict['why']}"


def main() -> None:
    """Runs it with a model that learns, and with one that does not."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Sidecar(packs=[PACK], allow_tools=EVALUATORS) as sidecar:
        for drafts in (LEARNS, STUBBORN):
            asyncio.run(optimize(sidecar, worker_of(sidecar.address, drafts)))


if __name__ == "__main__":
    main()
