"""Programs that pay: a tool with a ledger of its own, and handlers that call it."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pawl_client import (
    AsyncTurn,
    Client,
    Reply,
    StepDeniedError,
    StepFailedError,
    Turn,
    current_call,
)


class Ledger:
    """A file outside of the sidecar, in which the tool records each payment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pay(self, payload: Any) -> dict[str, Any]:
        """Records one payment, and then returns its result."""
        call = current_call()
        line = {"amount": payload["amount"], "key": call.idempotency_key, "attempt": call.attempt}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return {"paid": payload["amount"]}

    async def pay_soon(self, payload: Any) -> dict[str, Any]:
        """As `pay`, for coroutines."""
        return self.pay(payload)

    def lines(self) -> list[dict[str, Any]]:
        """What was paid, in order."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def amounts(self) -> list[int]:
        """The amounts."""
        return [line["amount"] for line in self.lines()]

    def used(self) -> set[str]:
        """The keys of the calls."""
        return {line["key"] for line in self.lines()}


def refunds(told: list[str], *amounts: int) -> Callable[[Turn], Reply]:
    """Returns a handler that pays, and that adds the result of each call to `told`."""

    def handler(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        for amount in amounts:
            try:
                told.append(str(turn.step("refund", {"amount": amount})))
            except (StepDeniedError, StepFailedError) as error:
                told.append(f"{type(error).__name__} {error.reason}")
        return Reply(event="Done")

    return handler


def refunds_soon(told: list[str], *amounts: int) -> Callable[[AsyncTurn], Awaitable[Reply]]:
    """As `refunds`, for coroutines."""

    async def handler(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        for amount in amounts:
            try:
                told.append(str(await turn.step("refund", {"amount": amount})))
            except (StepDeniedError, StepFailedError) as error:
                told.append(f"{type(error).__name__} {error.reason}")
        return Reply(event="Done")

    return handler


if __name__ == "__main__":
    address, name, path = sys.argv[1:]
    with Client(address=address, retry_for=60, timeout=60) as client:
        ledger = Ledger(Path(path))
        done = client.run("held", refunds([], 250), tools={"*": ledger.pay}, request_id=name)
    sys.exit(done.status != "COMPLETED")
