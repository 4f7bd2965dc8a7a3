"""Workers, one for each namespace, whose tools tell the world outside under the keys of calls."""

import asyncio
import json
import sys
import urllib.request

from pawl_client import Reply, StepFailedError, Turn, Worker, current_call

address, ledger, pack, spaces = sys.argv[1:]


def tell(tool: str) -> object:
    body = json.dumps({"tool": tool, "key": current_call().idempotency_key}).encode()
    with urllib.request.urlopen(urllib.request.Request(ledger, body)) as answer:
        return json.load(answer)


def charge(payload: dict[str, str]) -> object:
    return tell("charge")


def once(payload: dict[str, str]) -> object:
    return tell("once")


def work(turn: Turn) -> Reply:
    turn.step("charge", {})
    try:
        turn.step("once", {})
    except StepFailedError:
        pass  # Nobody knows whether it was done, so it is not done again.
    return Reply(event="More")


def end(turn: Turn) -> Reply:
    return Reply(output="done")


def worker_in(space: str) -> Worker:
    worker = Worker(
        address=address, namespace=space, packs=[pack], turns=4, steps=4, allow_unknown=True
    )
    worker.tool("charge")(charge)
    worker.tool("once")(once)
    worker.prompt("work")(work)
    worker.prompt("end")(end)
    return worker


async def main() -> None:
    await asyncio.gather(*(worker_in(space).serve() for space in spaces.split(",")))


asyncio.run(main())
