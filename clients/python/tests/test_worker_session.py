"""Many requests of a worker in one message, and many responses, on a scripted stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Any

import grpc
import pytest

from conftest import STEPS
from pawl_client import AsyncTurn, LimitError, Reply, RunStatus, Worker
from pawl_client._settings import Settings
from pawl_client._worker_session import SessionEndedError, WorkerSession
from pawl_client.testing import Sidecar
from pawl_client.v1 import worker_pb2
from workers import WAIT, serving


class Stream:
    """The call of a session: keeps what is written, and reads what it is given."""

    def __init__(self) -> None:
        self.written: list[worker_pb2.WorkRequest] = []
        self.news = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = False
        self.responses: asyncio.Queue[Any] = asyncio.Queue()

    async def write(self, request: worker_pb2.WorkRequest) -> None:
        self.written.append(request)
        self.news.set()
        await self.gate.wait()
        if self.broken:
            raise asyncio.InvalidStateError

    async def until(self, requests: int) -> None:
        """Waits until so many requests were written."""

        async def wait() -> None:
            while sum(1 + len(request.more) for request in self.written) < requests:
                self.news.clear()
                await self.news.wait()

        await asyncio.wait_for(wait(), WAIT)

    async def read(self) -> Any:
        return await self.responses.get()

    def cancel(self) -> None:
        self.responses.put_nowait(grpc.aio.EOF)

    async def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.OK

    async def details(self) -> str:
        return ""


async def registered(stream: Stream, max_bytes: int = 0) -> WorkerSession:
    answer = worker_pb2.WorkerRegistered(max_message_bytes=max_bytes)
    stream.responses.put_nowait(worker_pb2.WorkResponse(registered=answer))
    session = WorkerSession(stream, Settings(address="there:1"))
    await session.register(worker_pb2.WorkRequest())
    stream.written.clear()
    return session


def output(text: str) -> worker_pb2.WorkRequest:
    return worker_pb2.WorkRequest(output=worker_pb2.WorkerOutput(text=text))


def texts(request: worker_pb2.WorkRequest) -> list[str]:
    assert all(not more.more for more in request.more)
    return [request.output.text, *(more.output.text for more in request.more)]


async def test_what_waits_goes_in_one_message_and_in_order() -> None:
    stream = Stream()
    session = await registered(stream)
    stream.gate.clear()
    session.post(output("0"))
    await stream.until(1)
    for n in range(1, 5):
        session.post(output(str(n)))
    stream.gate.set()
    await stream.until(5)
    assert [texts(request) for request in stream.written] == [["0"], ["1", "2", "3", "4"]]


async def test_a_message_has_at_most_1024_requests() -> None:
    stream = Stream()
    session = await registered(stream)
    for n in range(1500):
        session.post(output(str(n)))
    await stream.until(1500)
    assert [len(texts(request)) for request in stream.written] == [1024, 476]
    assert [text for request in stream.written for text in texts(request)] == [
        str(n) for n in range(1500)
    ]


@pytest.mark.parametrize(("most", "sizes"), [(1000, [1, 1, 1]), (2000, [2, 1]), (0, [3])])
async def test_a_message_is_never_over_the_bound(most: int, sizes: list[int]) -> None:
    stream = Stream()
    session = await registered(stream, most)
    for _ in range(3):
        session.post(output("x" * 900))
    await stream.until(3)
    assert [len(texts(request)) for request in stream.written] == sizes
    assert not most or all(request.ByteSize() <= most for request in stream.written)


async def test_what_is_too_large_alone_is_refused_alone() -> None:
    stream = Stream()
    session = await registered(stream, 1000)
    session.post(output("before"))
    with pytest.raises(LimitError) as caught:
        session.post(output("x" * 1000))
    assert caught.value.reason == "MESSAGE_TOO_LARGE"
    await session.send(output("behind"))
    assert [text for request in stream.written for text in texts(request)] == ["before", "behind"]


async def test_receipts_that_share_a_message_reach_whoever_asked() -> None:
    stream = Stream()
    taken: list[worker_pb2.WorkResponse] = []
    session = await registered(stream)
    end = asyncio.create_task(session.receive(taken.append))
    first, second = (asyncio.create_task(session.request_receipt(output(n))) for n in "ab")
    await stream.until(2)
    response = worker_pb2.WorkResponse(receipt=worker_pb2.WorkReceipt(id=2))
    response.receipt.output.SetInParent()
    response.more.add().turn.agent = "one"
    response.more.add().receipt.id = 1
    stream.responses.put_nowait(response)
    assert (await asyncio.wait_for(second, WAIT)).HasField("output")
    assert (await asyncio.wait_for(first, WAIT)).id == 1
    assert [item.turn.agent for item in taken] == ["one"]
    session.close()
    await asyncio.wait_for(end, WAIT)


@pytest.mark.parametrize("how", ["written", "waiting", "behind"])
async def test_a_broken_stream_ends_what_was_to_be_sent(how: str) -> None:
    stream = Stream()
    session = await registered(stream)
    stream.gate.clear()
    stream.broken = True
    asked: list[Awaitable[Any]] = [asyncio.ensure_future(session.request_receipt(output("0")))]
    await stream.until(1)
    if how == "waiting":
        asked += [asyncio.ensure_future(session.send(output("1")))]
        await asyncio.sleep(0)
    stream.gate.set()
    for one in asked:
        with pytest.raises(SessionEndedError):
            await asyncio.wait_for(one, WAIT)
    if how == "behind":
        with pytest.raises(SessionEndedError):
            session.post(output("1"))


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS], allow_tools=["*"]) as process:
        yield process


async def test_turns_of_many_runs_share_messages(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real sidecar, few messages carry the requests of many runs and their responses."""
    sent: list[worker_pb2.WorkRequest] = []
    heard: list[worker_pb2.WorkResponse] = []
    together, take = WorkerSession._next_batch, WorkerSession._take

    def seen(session: WorkerSession) -> Any:
        batch = together(session)
        sent.append(batch[0][0])
        return batch

    def got(session: WorkerSession, response: worker_pb2.WorkResponse, other: Any) -> None:
        heard.append(response)
        take(session, response, other)

    monkeypatch.setattr(WorkerSession, "_next_batch", seen)
    monkeypatch.setattr(WorkerSession, "_take", got)
    runs = 32
    arrived, all_here = 0, asyncio.Event()
    worker = Worker(address=sidecar.address, turns=runs)

    @worker.prompt("*")
    async def work(turn: AsyncTurn) -> Reply:
        nonlocal arrived
        if turn.terminal:
            return Reply()
        arrived += 1
        if arrived == runs:
            all_here.set()
        await all_here.wait()
        return Reply(event="Done")

    async with sidecar.async_client() as client:
        started = [await client.start("steps", variables={"n": 1}) for _ in range(runs)]
        async with serving(worker):
            for run in started:
                assert (await run.wait(timeout=WAIT)).run.status is RunStatus.COMPLETED
    completions = [r for r in sent if r.HasField("complete_turn")]
    assert completions[0].more, "32 turns that end at once end in one message"
    assert len(completions) < runs
    assert sum(bool(response.more) for response in heard) > 0
