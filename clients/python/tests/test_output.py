"""The output of turns that are under way, as those read it who watch the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from conftest import STEPS
from pawl import (
    AsyncClient,
    AsyncRun,
    AsyncTurn,
    Client,
    OutputChunk,
    OutputPosition,
    Reply,
    Run,
    RunStatus,
    StreamGapError,
    Worker,
)
from pawl._output import OutputReader
from pawl.testing import Sidecar
from pawl.v1 import run_pb2
from proxy import Proxy
from workers import WAIT, serving


@pytest.fixture
def own() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS]) as process:
        yield process


class Speaker:
    """A handler that says a piece each time it is told to."""

    def __init__(self, worker: Worker) -> None:
        self.turns: list[AsyncTurn] = []
        self._orders: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        worker.prompt("calc")(self.handle)

    async def handle(self, turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        self.turns.append(turn)
        while True:
            order = await asyncio.wait_for(self._orders.get(), WAIT)
            if order is None:
                return Reply(event="Done")
            if isinstance(order, Exception):
                raise order
            await turn.output(order)

    def say(self, *orders: str | Exception | None) -> None:
        """Says pieces; an exception fails the turn, None ends it."""
        for order in orders:
            self._orders.put_nowait(order)


async def chunks_of(client: Client, run: Run) -> AsyncIterator[OutputChunk]:
    """The chunks that the blocking client reads in a thread."""
    read = run.output()

    def pull() -> OutputChunk | None:
        return next(read, None)

    while chunk := await asyncio.wait_for(asyncio.to_thread(pull), WAIT):
        yield chunk


@pytest.mark.parametrize("flavour", ["sync", "async"])
async def test_pieces_as_they_come(own: Sidecar, flavour: str) -> None:
    worker = Worker(address=own.address)
    speaker = Speaker(worker)
    with own.client() as client:
        async with own.async_client() as aclient, serving(worker):
            run = client.start("steps", variables={"n": 1})
            watched = aclient.attach(run.id)
            chunks = chunks_of(client, run) if flavour == "sync" else watched.output()
            speaker.say("one ")
            seen = []
            async for chunk in chunks:
                seen.append(chunk)
                # Each piece is read before the next one is said.
                speaker.say(("zwölf ", "three", None)[len(seen) - 1])
            assert await status(watched) is RunStatus.COMPLETED
    assert [chunk.text for chunk in seen] == ["one ", "zwölf ", "three"]
    assert [chunk.offset for chunk in seen] == [0, 4, 11]
    assert {(c.turn_seq, c.attempt, c.delivery, c.reset) for c in seen} == {(1, 1, 1, False)}


async def test_reasoning_is_marked_and_taken_back_too(own: Sidecar) -> None:
    worker = Worker(address=own.address)
    seen = asyncio.Event()

    @worker.prompt("calc")
    async def handle(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        await turn.reasoning("hm ")
        await turn.output("half")
        await asyncio.wait_for(seen.wait(), WAIT)
        await turn.retract_output(7)
        await turn.reasoning("so ")
        await turn.output("whole")
        return Reply(event="Done")

    async with own.async_client() as client, serving(worker):
        run = await client.start("steps", variables={"n": 1})
        chunks = []
        async for chunk in run.output():
            chunks.append((chunk.reset, chunk.reasoning, chunk.text))
            if len(chunks) == 2:
                seen.set()
    assert chunks == [
        (False, True, "hm "),
        (False, False, "half"),
        (True, False, ""),
        (False, True, "so "),
        (False, False, "whole"),
    ]


async def status(run: AsyncRun) -> RunStatus:
    return (await run.wait(timeout=WAIT)).run.status


async def test_from_a_position(own: Sidecar) -> None:
    worker = Worker(address=own.address)
    speaker = Speaker(worker)
    async with own.async_client() as client, serving(worker):
        run = await client.start("steps", variables={"n": 1})
        speaker.say("first")
        first = await take(run.output())
        speaker.say("second")
        second = await take(run.output(after=first.position))
        assert (second.text, second.offset, second.reset) == ("second", 5, False)
        everything = await take(run.output())
        assert (everything.text, everything.offset) == ("firstsecond", 0)
        # What is behind all that there is cannot be what was read.
        ahead = OutputPosition(turn_seq=1, delivery=1, offset=99)
        again = await take(run.output(after=ahead))
        assert (again.text, again.reset) == ("firstsecond", True)
        speaker.say(None)
        assert await status(run) is RunStatus.COMPLETED


async def take(chunks: AsyncIterator[OutputChunk]) -> OutputChunk:
    """The first chunk."""

    async def first() -> OutputChunk:
        async for chunk in chunks:
            await chunks.aclose()  # type: ignore[attr-defined]
            return chunk
        raise AssertionError("the output ended")

    return await asyncio.wait_for(first(), WAIT)


async def test_another_attempt_resets_what_was_read(own: Sidecar) -> None:
    worker = Worker(address=own.address)
    speaker = Speaker(worker)
    async with own.async_client() as client, serving(worker):
        run = await client.start("steps", variables={"n": 1})
        speaker.say("wrong")
        seen = []
        async for chunk in run.output():
            seen.append(chunk)
            if len(seen) == 1:
                speaker.say(RuntimeError("again"), "right")
            else:
                speaker.say(None)
        assert await status(run) is RunStatus.COMPLETED
    assert [(c.text, c.attempt, c.delivery, c.reset) for c in seen] == [
        ("wrong", 1, 1, False),
        ("right", 2, 2, True),
    ]
    assert seen[1].offset == 0


async def test_long_pieces_split_no_character(own: Sidecar) -> None:
    worker = Worker(address=own.address)
    speaker = Speaker(worker)
    text = "aäあ🙂" * 20_000
    async with own.async_client() as client, serving(worker):
        run = await client.start("steps", variables={"n": 1})
        speaker.say(text)
        read = ""
        async for chunk in run.output():
            assert not chunk.reset
            assert len(chunk.text.encode()) <= 1 << 16
            read += chunk.text
            if read == text:
                speaker.say(None)
        assert await status(run) is RunStatus.COMPLETED
    assert read == text


async def test_lost_connections_of_reader_and_worker(own: Sidecar) -> None:
    with Proxy(own.address) as proxy:
        worker = Worker(address=proxy.address)
        speaker = Speaker(worker)
        async with AsyncClient(address=proxy.address) as client, serving(worker):
            run = await client.start("steps", variables={"n": 1})
            speaker.say("0 ")
            read = ""
            async for chunk in run.output():
                assert not chunk.reset
                read += chunk.text
                count = len(read) // 2
                proxy.cut()
                speaker.say(f"{count} " if count < 6 else None)
            assert await status(run) is RunStatus.COMPLETED
    assert read == "0 1 2 3 4 5 "
    assert len(speaker.turns) == 1


async def test_a_sidecar_that_was_restarted(own: Sidecar) -> None:
    """It has lost the output, and is told it again: a reader goes on where it was."""
    worker = Worker(address=own.address)
    speaker = Speaker(worker)
    async with own.async_client() as client, serving(worker):
        run = await client.start("steps", variables={"n": 1})
        speaker.say("before ")
        seen = []
        async for chunk in run.output():
            seen.append((chunk.text, chunk.offset, chunk.reset))
            if len(seen) == 1:
                await asyncio.to_thread(own.restart)
                speaker.say("after")
            else:
                speaker.say(None)
        assert await status(run) is RunStatus.COMPLETED
    assert seen == [("before ", 0, False), ("after", 7, False)]


def chunk(offset: int, text: str, *, delivery: int = 1, reset: bool = False) -> object:
    return run_pb2.StreamTransitionsResponse(
        output=run_pb2.OutputChunk(
            turn_seq=1, attempt=1, delivery=delivery, offset=offset, text=text, reset=reset
        )
    )


def read(reader: OutputReader, item: object) -> str | None:
    got = reader.read(item)  # type: ignore[arg-type]
    return None if got is None else got.text


def test_a_reader_proves_what_it_reads() -> None:
    reader = OutputReader(namespace="", run_id="r")
    assert read(reader, chunk(0, "ab")) == "ab"
    assert read(reader, chunk(0, "ab")) is None
    with pytest.raises(StreamGapError, match="goes on at byte 3, but the last one read was 2"):
        read(reader, chunk(3, "d"))
    after = reader.request().output_after
    assert (after.turn_seq, after.delivery, after.offset) == (1, 1, 2)
    assert read(reader, chunk(9, "xy", reset=True)) == "xy"
    assert read(reader, chunk(11, "z")) == "z"
    assert read(reader, chunk(0, "anew", delivery=2)) == "anew"
    assert reader.request().output_after.delivery == 2
