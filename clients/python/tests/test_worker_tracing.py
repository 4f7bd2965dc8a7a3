"""The traces of handlers, continued by OpenTelemetry where it is installed."""

from __future__ import annotations

import subprocess
import sys

from opentelemetry import trace

from conftest import STEPS
from pawl_client import AsyncTurn, Json, Reply, RunStatus, Turn, Worker
from pawl_client.testing import Sidecar
from workers import ended, serving

TRACE = 0x0AF7651916CD43DD8448EB211C80319C
PARENT = f"00-{TRACE:032x}-b7ad6b7169203331-01"


def _here() -> tuple[int, int]:
    """The trace and the span that a span of the caller would be below."""
    context = trace.get_current_span().get_span_context()
    return context.trace_id, context.span_id


async def test_handlers_continue_the_trace() -> None:
    seen: dict[str, tuple[int, int]] = {}
    with Sidecar(packs=[STEPS], allow_tools=["*"]) as process, process.client() as client:
        worker = Worker(address=process.address)

        @worker.prompt("calc")
        async def calc(turn: AsyncTurn) -> Reply:
            seen[f"turn {turn.terminal}"] = _here()
            if turn.terminal:
                return Reply()
            await turn.step("add", {"a": 1, "b": 2})
            return Reply(event="Done")

        @worker.tool("add")
        def add(payload: Json) -> Json:
            seen["tool"] = _here()
            return 3

        async with serving(worker):
            traced = client.start("steps", variables={"n": 1}, labels={"traceparent": PARENT})
            assert await ended(traced) is RunStatus.COMPLETED
            spans = {span for _, span in seen.values()}
            assert {name for name, _ in seen.values()} == {TRACE}
            assert len(spans) == len(seen) == 3
            assert 0xB7AD6B7169203331 not in spans
            seen.clear()
            untraced = client.start("steps", variables={"n": 1})
            assert await ended(untraced) is RunStatus.COMPLETED
            assert set(seen.values()) == {(0, 0)}


async def test_a_handler_in_a_thread_continues_it() -> None:
    seen: list[int] = []
    with Sidecar(packs=[STEPS], allow_tools=["*"]) as process, process.client() as client:
        worker = Worker(address=process.address)

        @worker.prompt("calc")
        def calc(turn: Turn) -> Reply:
            seen.append(_here()[0])
            return Reply() if turn.terminal else Reply(event="Done")

        async with serving(worker):
            run = client.start("steps", variables={"n": 1}, labels={"traceparent": PARENT})
            assert await ended(run) is RunStatus.COMPLETED
    assert seen == [TRACE, TRACE]


def test_without_opentelemetry() -> None:
    """The package works where OpenTelemetry is not installed."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from pawl_client import _tracing\n"
        f"_tracing.enter({PARENT!r})\n"
        "assert not any(name.startswith('opentelemetry.') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
