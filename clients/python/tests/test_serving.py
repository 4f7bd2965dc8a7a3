"""The runs that a client drives share one stream of work, and each is executed by its own
handlers."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conftest import STEPS
from pawl_client import (
    ArtifactError,
    AsyncClient,
    AsyncTurn,
    CallCancelledError,
    Client,
    FailTurnError,
    HandlerError,
    NotFoundError,
    PawlError,
    PermissionDeniedError,
    Reply,
    RunResult,
    RunStatus,
    RunTakenOverError,
    StateError,
    Tls,
    Turn,
    TurnView,
    UnavailableError,
    UnknownEventError,
)
from pawl_client._served_run import ServedRun, handlers_of
from pawl_client._settings import Settings
from pawl_client._worker_connection import WorkerConfig, WorkerConnection
from pawl_client.testing import Sidecar
from pawl_client.v1 import worker_pb2
from proxy import Proxy
from workers import WAIT, workers_of

FLAVOURS = ["blocking", "coroutines"]
N = {"n": 1}


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS], allow_tools=["*"]) as process:
        yield process


def count_to(most: int) -> Callable[[TurnView], Reply]:
    """A handler of one run: `most` visits of `calc`, each of which writes its number."""

    def handle(turn: TurnView) -> Reply:
        if turn.terminal:
            return Reply()
        event = "Done" if turn.visit >= most else "Again"
        return Reply(event=event, artifacts={"log": str(turn.visit)})

    return handle


async def drive(
    flavour: str, runs: int, handler: Any, request_id: str = "", **settings: Any
) -> list[RunResult]:
    """Drives many runs at once with one client."""
    how: Any = {"variables": N, "request_id": request_id}
    if flavour == "coroutines":
        async with AsyncClient(**settings) as client:
            many = (client.run("steps", handler, **how) for _ in range(runs))
            return await asyncio.wait_for(asyncio.gather(*many), WAIT)
    with Client(**settings) as blocking:
        each = (asyncio.to_thread(blocking.run, "steps", handler, **how) for _ in range(runs))
        return await asyncio.wait_for(asyncio.gather(*each), WAIT)


def check(results: list[RunResult], turns: int) -> None:
    """Each turn took effect once, in each run."""
    for result in results:
        assert result.status is RunStatus.COMPLETED
        assert result.errors == ()
        assert result.run.visits == {"calc": turns, "end": 1}
        assert result.artifacts["log"] == "\n".join(str(n + 1) for n in range(turns))


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_many_runs_share_a_stream(shared: Sidecar, flavour: str) -> None:
    """A client is one worker, however many runs it drives."""
    served: list[list[int]] = []

    def handle(turn: TurnView) -> Reply:
        served.append([worker.served_runs for worker in workers_of(shared)])
        return count_to(2)(turn)

    check(await drive(flavour, 12, handle, address=shared.address), 2)
    assert all(len(workers) == 1 for workers in served)
    assert max(workers[0] for workers in served) > 1


async def test_coroutine_handlers_run_side_by_side(shared: Sidecar) -> None:
    here, everybody = 0, asyncio.Event()

    async def handle(turn: AsyncTurn) -> Reply:
        nonlocal here
        here += 1
        if here == 8:
            everybody.set()
        await asyncio.wait_for(everybody.wait(), WAIT)
        return count_to(1)(turn)

    check(await drive("coroutines", 8, handle, address=shared.address), 1)


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_links_that_break(shared: Sidecar, flavour: str) -> None:
    """The client keeps its turns over a new connection, and each turn takes effect once."""
    turns, breaks = 25, 4
    with Proxy(shared.address) as proxy:
        count = 0

        def handle(turn: TurnView) -> Reply:
            nonlocal count
            count += 1
            if count % (turns // breaks) == 0:
                proxy.cut()
            return count_to(turns)(turn)

        check(await drive(flavour, 1, handle, address=proxy.address), turns)
        assert proxy.connections > breaks


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    ("handler", "error", "reason"),
    [
        (lambda turn: "done", HandlerError, "BAD_REPLY"),
        ({"nobody": count_to(1)}, FailTurnError, ""),
        (lambda turn: Reply(event="Nope"), UnknownEventError, "UNKNOWN_EVENT"),
        (
            lambda turn: Reply(event="Done", artifacts={"no": 1}),
            ArtifactError,
            "UNDECLARED_ARTIFACT",
        ),
        (lambda turn: Reply(event="Done", artifacts={"log": b"x"}), ArtifactError, "ARTIFACT_TYPE"),
        (lambda: Reply(), TypeError, ""),
        (lambda turn, more: Reply(), TypeError, ""),
    ],
    ids=[
        "no reply",
        "no handler",
        "no such event",
        "no such artifact",
        "another type",
        "takes nothing",
        "takes more",
    ],
)
async def test_mistakes_are_raised_at_once(
    shared: Sidecar, flavour: str, handler: Any, error: type[Exception], reason: str
) -> None:
    """A mistake in the program uses up no attempt, and the run can be driven again."""
    request_id = f"mistake-{flavour}-{error.__name__}-{reason}"
    with pytest.raises(error) as caught:
        await drive(flavour, 1, handler, address=shared.address, request_id=request_id)
    assert getattr(caught.value, "reason", "") == reason or not reason
    assert "\n" not in str(caught.value)
    with shared.client() as client:
        again = client.run("steps", count_to(1), variables=N, request_id=request_id)
        check([again], 1)
        failed = list(client.attach(again.run.run_id).records(kinds=["TURN_FAILED"]))
    assert failed == []


def test_what_is_no_function_is_refused_before_the_run_begins(shared: Sidecar) -> None:
    async def handle(turn: AsyncTurn) -> Reply:
        return Reply()

    with shared.client() as client:
        for handler, tools in ((handle, {}), ("x", {}), ({}, {}), (count_to(1), {"add": handle})):
            with pytest.raises(TypeError):
                client.run("steps", handler, tools=tools, variables=N)  # type: ignore[arg-type]
        with pytest.raises(NotFoundError):
            client.run("unregistered", count_to(1))


def test_another_process_takes_the_run_over(shared: Sidecar) -> None:
    """The first process receives an error, its work does not count, and the second one ends the
    run."""
    begun, free = threading.Event(), threading.Event()

    def slow(turn: Turn) -> Reply:
        begun.set()
        free.wait(WAIT)
        return Reply(event="Done")

    caught: list[BaseException] = []
    with shared.client() as first, shared.client() as second:

        def run() -> None:
            try:
                first.run("steps", slow, variables=N, request_id="twice")
            except BaseException as error:
                caught.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert begun.wait(WAIT)
        check([second.run("steps", count_to(2), variables=N, request_id="twice")], 2)
        thread.join(WAIT)
        free.set()
    assert [type(error) for error in caught] == [RunTakenOverError]


async def test_one_run_twice_by_one_client(shared: Sidecar) -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def handle(turn: AsyncTurn) -> Reply:
        begun.set()
        await free.wait()
        return count_to(1)(turn)

    async with AsyncClient(address=shared.address) as client:
        run = await client.open("steps", variables=N)
        driving = asyncio.create_task(run.drive(handle))
        await asyncio.wait_for(begun.wait(), WAIT)
        with pytest.raises(StateError, match="driven by this client"):
            await run.drive(handle)
        free.set()
        check([await asyncio.wait_for(driving, WAIT)], 1)


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_client_that_is_closed_gives_its_runs_up(shared: Sidecar, flavour: str) -> None:
    begun, free = threading.Event(), threading.Event()

    def slow(turn: Any) -> Reply:
        begun.set()
        free.wait(WAIT)
        return Reply(event="Done")

    async def stuck(turn: AsyncTurn) -> Reply:
        begun.set()
        await asyncio.Event().wait()
        return Reply()

    async def entered() -> None:
        assert await asyncio.to_thread(begun.wait, WAIT)

    request_id = f"closed-{flavour}"
    client: Any
    if flavour == "coroutines":
        client = AsyncClient(address=shared.address)
        driving = asyncio.create_task(
            client.run("steps", stuck, variables=N, request_id=request_id)
        )
        await entered()
        await client.close()
    else:
        client = Client(address=shared.address)
        job = asyncio.to_thread(client.run, "steps", slow, variables=N, request_id=request_id)
        driving = asyncio.create_task(job)
        await entered()
        await asyncio.to_thread(client.close)
    with pytest.raises(CallCancelledError):
        await asyncio.wait_for(driving, WAIT)
    free.set()
    with shared.client() as other:
        again = await asyncio.to_thread(
            other.run, "steps", count_to(1), variables=N, request_id=request_id
        )
    check([again], 1)


async def test_a_driver_that_is_cancelled_keeps_nobody_else(shared: Sidecar) -> None:
    entered = asyncio.Event()

    async def stuck(turn: AsyncTurn) -> Reply:
        entered.set()
        await asyncio.Event().wait()
        return Reply()

    async with AsyncClient(address=shared.address) as client:
        lost = asyncio.create_task(client.run("steps", stuck, variables=N))
        await asyncio.wait_for(entered.wait(), WAIT)
        lost.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await lost
        check([await client.run("steps", count_to(3), variables=N)], 3)


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_sidecar_that_is_away_for_long(flavour: str) -> None:
    """A run that is driven waits for the sidecar, even if calls are repeated for a short time
    only."""
    with Sidecar(packs=[STEPS], allow_tools=["*"]) as process:
        away: list[threading.Timer] = []

        def handle(turn: TurnView) -> Reply:
            if not away:
                process.kill()
                away.append(threading.Timer(2.0, process.restart))
                away[0].start()
            return count_to(2)(turn)

        settings: dict[str, Any] = {"address": process.address, "timeout": 60.0}
        check(await drive(flavour, 1, handle, retry_for=0.5, **settings), 2)


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_no_sidecar(flavour: str) -> None:
    """Without a sidecar, driving a run fails after the time for which calls are repeated."""
    with Sidecar(packs=[STEPS], allow_tools=["*"]) as process:
        with process.client() as client:
            run = client.open("steps", variables=N)
        process.kill()

        async def driven() -> None:
            if flavour == "coroutines":
                async with AsyncClient(address=process.address, retry_for=0.5) as other:
                    await other.attach(run.id).drive(count_to(1))
            else:
                with Client(address=process.address, retry_for=0.5) as blocking:
                    await asyncio.to_thread(blocking.attach(run.id).drive, count_to(1))

        with pytest.raises(UnavailableError):
            await driven()


def test_handlers_have_the_context_of_their_caller(shared: Sidecar) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    seen: list[str] = []

    def handle(turn: Turn) -> Reply:
        seen.append(who.get())
        if not turn.terminal:
            turn.step("add", {"a": 1, "b": 2})
        return Reply(event="" if turn.terminal else "Done", artifacts={})

    def add(payload: Any) -> int:
        seen.append(who.get())
        return 3

    who.set("the caller")
    with shared.client() as client:
        client.run("steps", handle, tools={"add": add}, variables=N)
    assert seen == ["the caller"] * 3


async def test_plain_functions_do_not_hold_up_an_event_loop(shared: Sidecar) -> None:
    """A handler and a tool of `AsyncClient` that are no coroutine functions run in threads."""
    begun, free = threading.Event(), threading.Event()

    def blocks(value: int) -> int:
        begun.set()
        assert free.wait(WAIT)
        free.clear()
        return value

    def handle(turn: AsyncTurn) -> Any:
        if turn.terminal:
            return Reply()

        async def rest() -> Reply:
            assert await turn.step("add", {"a": 1, "b": 2}) == 3
            return Reply(event="Done")

        blocks(0)
        return rest()

    async with AsyncClient(address=shared.address) as client:
        tools = {"add": lambda payload: blocks(3)}
        driving = asyncio.create_task(client.run("steps", handle, tools=tools, variables=N))
        for _ in range(2):
            assert await asyncio.to_thread(begun.wait, WAIT)
            begun.clear()
            free.set()
        assert (await asyncio.wait_for(driving, WAIT)).errors == ()


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_tool_at_work_is_heard_by_a_client_that_closes(
    shared: Sidecar, flavour: str
) -> None:
    """The result of the tool is recorded, and the tool is not called again."""
    begun, free, calls = threading.Event(), threading.Event(), []

    def add(payload: Any) -> int:
        calls.append(payload)
        begun.set()
        assert free.wait(WAIT)
        return 3

    def handle(turn: Turn) -> Reply:
        if not turn.terminal:
            assert turn.step("add", {"a": 1, "b": 2}) == 3
        return Reply() if turn.terminal else Reply(event="Done")

    async def soon(turn: AsyncTurn) -> Reply:
        if not turn.terminal:
            assert await turn.step("add", {"a": 1, "b": 2}) == 3
        return Reply() if turn.terminal else Reply(event="Done")

    how: Any = {"tools": {"add": add}, "variables": N, "request_id": f"at-work-{flavour}"}
    client: Any
    if flavour == "coroutines":
        client = AsyncClient(address=shared.address)
        driving = asyncio.create_task(client.run("steps", soon, **how))
    else:
        client = Client(address=shared.address)
        driving = asyncio.create_task(asyncio.to_thread(client.run, "steps", handle, **how))
    assert await asyncio.to_thread(begun.wait, WAIT)
    closing: Any = client.close() if flavour == "coroutines" else asyncio.to_thread(client.close)
    closed = asyncio.create_task(closing)
    with pytest.raises(CallCancelledError):
        await asyncio.wait_for(driving, WAIT)
    free.set()
    await closed
    with shared.client() as other:
        again = await asyncio.to_thread(other.run, "steps", handle, **how)
    assert (again.status, again.errors, len(calls)) == (RunStatus.COMPLETED, (), 1)


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_client_that_was_closed_drives_nothing(shared: Sidecar, flavour: str) -> None:
    with shared.client() as client:
        run_id = client.open("steps", variables=N).id
        if flavour == "coroutines":
            other = AsyncClient(address=shared.address)
            await other.close()
            with pytest.raises(CallCancelledError):
                await other.attach(run_id).drive(count_to(1))
        else:
            blocking = Client(address=shared.address)
            blocking.close()
            with pytest.raises(CallCancelledError):
                blocking.attach(run_id).drive(count_to(1))
        check([await asyncio.to_thread(client.attach(run_id).drive, count_to(1))], 1)


async def test_what_a_stream_cannot_begin_with_is_raised(shared: Sidecar) -> None:
    """An error of the program, not of the sidecar, does not look like the end of the client."""
    async with AsyncClient(address=shared.address, tls=Tls(ca=b"no path")) as client:  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await client.attach("01J9Z3NDEKTSV4RRFFQ69G5FAV").drive(count_to(1))


class Refusing:
    """A session that refuses a request for a while."""

    def __init__(self, *errors: PawlError) -> None:
        self.errors = list(errors)

    async def request_receipt(self, request: worker_pb2.WorkRequest) -> worker_pb2.WorkReceipt:
        assert request.serve_run.run_id == "r"
        if self.errors:
            raise self.errors.pop(0)
        return worker_pb2.WorkReceipt()


@pytest.mark.parametrize(
    ("error", "taken"),
    [
        (UnavailableError("away", code="UNAVAILABLE", reason="DATABASE_AWAY"), True),
        (PermissionDeniedError("no", code="PERMISSION_DENIED", reason="SCOPE_MISSING"), False),
    ],
)
async def test_serve_run_is_repeated_where_that_may_help(error: PawlError, taken: bool) -> None:
    offer = WorkerConfig(worker_id="w", packs=(), allow_unknown=False, turns=0, steps=0)
    link = WorkerConnection(Settings(address="127.0.0.1:1"), offer, lambda _: None, lambda _: None)
    link._set_session(Refusing(error))  # type: ignore[arg-type]
    served = ServedRun(handlers_of(count_to(1), None, blocking=True), run_id="r")
    served.begin()
    if taken:
        await link.serve(served)
    else:
        with pytest.raises(PermissionDeniedError):
            await link.serve(served)
    assert served.accepted is taken


FORKS = """
import os, sys
from pawl_client import Client, Reply, StateError
from pawl_client.testing import Sidecar
with Sidecar(packs=[sys.argv[1]]) as sidecar, sidecar.client() as client:
    handle = lambda turn: Reply() if turn.terminal else Reply(event="Done")
    client.run("steps", handle, variables={"n": 1})
    ends = set()
    for _ in range(50):
        if (child := os.fork()) == 0:
            try:
                Client(address=sidecar.address).run("steps", handle, variables={"n": 1})
            except StateError as error:
                os._exit(7 if error.reason == "FORKED" else 8)
            os._exit(9)
        ends.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(ends, len(list(client.list_runs())))
"""


def test_a_forked_process_is_told_that_it_cannot(shared: Sidecar) -> None:
    """A forked process cannot use a stream of its parent, so it starts no run. The fork handlers
    of gRPC killed a quarter of the children."""
    command = [sys.executable, "-c", FORKS, str(STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)
    assert (done.stdout, done.returncode) == ("{7} 1\n", 0), done.stderr


async def test_a_turn_waits_for_a_thread_that_was_given_up(shared: Sidecar) -> None:
    """A cancelled drive leaves its handler running in a thread. The next execution of the turn
    starts when that thread has finished."""
    begun, again = threading.Event(), threading.Event()
    beside: list[bool] = []

    def handle(turn: TurnView) -> Reply:
        if begun.is_set():
            again.set()
        else:
            begun.set()
            beside.append(again.wait(1))
        return count_to(1)(turn)

    async with AsyncClient(address=shared.address) as client:
        how: Any = {"variables": N, "request_id": "given-up"}
        first = asyncio.create_task(client.run("steps", handle, **how))
        assert await asyncio.to_thread(begun.wait, WAIT)
        first.cancel()
        await asyncio.wait({first})
        check([await asyncio.wait_for(client.run("steps", handle, **how), WAIT)], 1)
    assert beside == [False]
