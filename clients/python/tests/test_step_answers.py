"""What a tool did is told again while the sidecar asks to come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from pawl import OverloadedError
from pawl._handlers import Handlers
from pawl._held import HeldStep
from pawl._link import Link
from pawl._running import Running
from pawl._step_execution import StepExecution
from pawl.v1 import worker_pb2


class Full:
    """A link whose sidecar has no room for the answer for a while."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.told, self.steps, self.credits = refusals, [], {}, 0  # type: ignore[var-annotated]

    async def ask(self, held: object, make: Callable[[], worker_pb2.WorkRequest]) -> None:
        self.told.append(make().resolve_step.result_json)
        if len(self.told) <= self.refusals:
            raise OverloadedError("DISK_LOW", reason="DISK_LOW", retry_after=0.001)

    def credit(self, turns: int, steps: int) -> None:
        self.credits += steps


class Works:
    """Calls tools, and forgets what went wrong."""

    async def call(self, held: object, tool: Any, payload: object) -> Any:
        return {"seat": 1}

    def report(self, what: str, error: BaseException) -> None:
        pass


class Tools:
    """One tool without schemas."""

    parameters = result = None

    def of_tool(self, name: str) -> Any:
        return self


def test_an_answer_is_told_again() -> None:
    """Told as an error, or forgotten, the call would be made again although it happened."""
    link = Full(refusals=3)
    lease = worker_pb2.StepLease(run_id="r", step=1, tool="book", attempt=1, token="t")
    step = HeldStep(worker_pb2.StepAssignment(lease=lease, payload_json="{}"))
    execution = StepExecution(
        cast(Link, link), cast(Handlers, Tools()), cast(Running, Works()), step
    )
    asyncio.run(execution.execute())
    assert link.told == ['{"seat":1}'] * 4
    assert link.credits == 1
