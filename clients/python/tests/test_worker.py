"""Workers against a real sidecar."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from conftest import SELF_CORRECTING, STEPS
from pawl_client import (
    AsyncTurn,
    Client,
    RecordKind,
    Reply,
    RunStatus,
    ToolCall,
    Turn,
    Worker,
    current_call,
)
from pawl_client.testing import Sidecar
from proxy import Proxy
from workers import WAIT, ended, serving


@pytest.fixture(params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def correcting(flavour: str, worker: Worker) -> None:
    if flavour == "sync":

        @worker.prompt("worker")
        def answer(turn: Turn) -> Reply:
            turn.output("thinking")
            if turn.terminal:
                return Reply(output="done")
            return Reply(event="Error" if turn.visit == 1 else "Success")

    else:

        @worker.prompt("worker")
        async def answer_async(turn: AsyncTurn) -> Reply:
            await turn.output("thinking")
            if turn.terminal:
                return Reply(output="done")
            return Reply(event="Error" if turn.visit == 1 else "Success")


async def test_turns(sidecar: Sidecar, client: Client, flavour: str) -> None:
    worker = Worker(address=sidecar.address, packs=["self-correcting"], turns=4)
    correcting(flavour, worker)
    async with serving(worker):
        runs = [client.start("self-correcting") for _ in range(6)]
        assert [await ended(run) for run in runs] == [RunStatus.COMPLETED] * 6
    records = list(runs[0].records(kinds=["TURN_ASSIGNED", "TRANSITION"]))
    assert {r.body.assigned.worker for r in records if r.kind == "TURN_ASSIGNED"} == {worker.id}  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """A sidecar for the tests of this file that kill nothing."""
    with Sidecar(packs=[STEPS, SELF_CORRECTING], allow_tools=["*"]) as process:
        yield process


@pytest.fixture
def own() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS, SELF_CORRECTING], allow_tools=["*"]) as process:
        yield process


async def test_steps(shared: Sidecar, flavour: str) -> None:
    worker = Worker(address=shared.address, turns=2, steps=2)
    calls: list[ToolCall] = []
    if flavour == "sync":

        @worker.prompt("calc")
        def calc(turn: Turn) -> Reply:
            if turn.terminal:
                return Reply()
            total = turn.step("add", {"a": 1, "b": 2})
            turn.set_artifacts({"log": f"got {total}"})
            if turn.attempt == 1:
                raise RuntimeError("after the tool")
            return Reply(event="Done", artifacts={"sum": total})

        @worker.tool("add")
        def add(payload: dict[str, int]) -> int:
            calls.append(current_call())
            return payload["a"] + payload["b"]

    else:

        @worker.prompt("calc")
        async def calc_async(turn: AsyncTurn) -> Reply:
            if turn.terminal:
                return Reply()
            total = await turn.step("add", {"a": 1, "b": 2})
            await turn.set_artifacts({"log": f"got {total}"})
            if turn.attempt == 1:
                raise RuntimeError("after the tool")
            return Reply(event="Done", artifacts={"sum": total})

        @worker.tool("add")
        async def add_async(payload: dict[str, int]) -> int:
            calls.append(current_call())
            return payload["a"] + payload["b"]

    with shared.client() as client:
        async with serving(worker):
            run = client.start("steps", variables={"n": 1})
            assert await ended(run) is RunStatus.COMPLETED
        assert run.artifacts() == {"sum": 3, "log": "got 3\ngot 3"}
        assert [(call.step, call.tool, call.attempt) for call in calls] == [(1, "add", 1)]
        assert run.info().tool_calls == 1


async def test_a_lost_connection_in_the_midst_of_a_turn(shared: Sidecar) -> None:
    """The worker connects again and keeps its turn: it is executed once."""
    executions = 0
    started, go = asyncio.Event(), asyncio.Event()
    with Proxy(shared.address) as proxy, shared.client() as client:
        worker = Worker(address=proxy.address, packs=["self-correcting"])

        @worker.prompt("worker")
        async def answer(turn: AsyncTurn) -> Reply:
            nonlocal executions
            executions += 1
            if turn.terminal:
                return Reply()
            started.set()
            await go.wait()
            return Reply(event="Success")

        async with serving(worker):
            run = client.start("self-correcting")
            await asyncio.wait_for(started.wait(), WAIT)
            before = proxy.connections
            proxy.cut()
            await asyncio.to_thread(proxy.wait_for_connections, before + 1)
            go.set()
            assert await ended(run) is RunStatus.COMPLETED
        assert executions == 2
        assert list(run.records(kinds=["TURN_FAILED"])) == []


async def test_a_killed_sidecar_in_the_midst_of_a_turn(own: Sidecar) -> None:
    started, go = asyncio.Event(), asyncio.Event()
    with own.client() as client:
        worker = Worker(address=own.address, packs=["self-correcting"])

        @worker.prompt("worker")
        async def answer(turn: AsyncTurn) -> Reply:
            if turn.terminal:
                return Reply()
            started.set()
            await go.wait()
            return Reply(event="Success")

        async with serving(worker):
            run = client.start("self-correcting")
            await asyncio.wait_for(started.wait(), WAIT)
            await asyncio.to_thread(own.restart)
            go.set()
            assert await ended(run) is RunStatus.COMPLETED
        assert [r.kind for r in run.transitions()] == ["TRANSITION", "TRANSITION", "ENDED"]
        assert list(run.records(kinds=["TURN_FAILED"])) == []


async def test_a_revoked_turn_is_cancelled(shared: Sidecar) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()
    worker = Worker(address=shared.address)

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return Reply()

    with shared.client() as client:
        async with serving(worker):
            run = client.start("steps", variables={"n": 1})
            await asyncio.wait_for(started.wait(), WAIT)
            await asyncio.to_thread(run.cancel)
            await asyncio.wait_for(cancelled.wait(), WAIT)


async def test_what_makes_no_worker() -> None:
    with pytest.raises(ValueError, match="at least one handler"):
        await Worker().serve()
    with pytest.raises(ValueError, match="turns: must be from 1 to 10000, not 0"):
        Worker(turns=0)
    worker = Worker()
    worker.tool("add")(lambda payload: None)
    with pytest.raises(ValueError, match="'add' has a handler already"):
        worker.tool("add")(lambda payload: None)


PROGRAM = """
import sys
from pawl_client import Reply, Worker
worker = Worker(address=sys.argv[1], packs=["self-correcting"])

@worker.prompt("worker")
def answer(turn):
    print("started", flush=True)
    sys.stdin.readline()
    return Reply(event="" if turn.terminal else "Success")

stop = worker.stop

def stop_and_print():
    stop()
    print("stopping", flush=True)

worker.stop = stop_and_print
worker.run()
print("drained", flush=True)
"""


@contextlib.contextmanager
def program(address: str) -> Iterator[subprocess.Popen[str]]:
    """A worker in a process of its own; each turn takes a line of its input."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_sigterm_lets_the_turn_finish(own: Sidecar) -> None:
    with own.client() as client, program(own.address) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        run = client.start("self-correcting")
        assert process.stdout.readline() == "started\n"
        process.terminate()
        assert process.stdout.readline() == "stopping\n"
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.wait(timeout=WAIT) == 0
        assert process.stdout.read() == "drained\n"
        info = run.info()
        # The worker did not take the turn that follows.
        assert (info.state, info.status) == ("complete", RunStatus.RUNNING)


def test_a_killed_worker_gives_its_turn_to_another(own: Sidecar) -> None:
    with own.client() as client, program(own.address) as process:
        assert process.stdout is not None
        run = client.start("self-correcting")
        assert process.stdout.readline() == "started\n"
        worker = Worker(address=own.address, packs=["self-correcting"])
        worker.prompt("worker")(lambda turn: Reply(event="" if turn.terminal else "Success"))
        thread = threading.Thread(target=lambda: asyncio.run(worker.serve()))
        thread.start()
        process.kill()
        process.wait(timeout=WAIT)
        # Long before its lease of 60 s would have run out.
        assert run.wait(timeout=50).run.status is RunStatus.COMPLETED
        worker.stop()
        thread.join(timeout=WAIT)
        assert not thread.is_alive()
        assert list(run.records(kinds=[RecordKind.TURN_FAILED])) == []
