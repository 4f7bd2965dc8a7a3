"""A worker whose tools tell the world outside, under the keys of their calls."""

import json
import sys
import urllib.request

from pawl import Reply, StepFailedError, Turn, Worker, current_call

address, ledger, pack = sys.argv[1:]
worker = Worker(address=address, packs=[pack], turns=4, steps=4, allow_unknown=True)


def tell(tool: str) -> object:
    body = json.dumps({"tool": tool, "key": current_call().idempotency_key}).encode()
    with urllib.request.urlopen(urllib.request.Request(ledger, body)) as answer:
        return json.load(answer)


@worker.tool("charge")
def charge(payload: dict[str, str]) -> object:
    return tell("charge")


@worker.tool("once")
def once(payload: dict[str, str]) -> object:
    return tell("once")


@worker.prompt("work")
def work(turn: Turn) -> Reply:
    turn.step("charge", {})
    try:
        turn.step("once", {})
    except StepFailedError:
        pass  # Nobody knows whether it was done, so it is not done again.
    return Reply(event="More")


@worker.prompt("end")
def end(turn: Turn) -> Reply:
    return Reply(output="done")


worker.run()
