"""The output of turns that are running, as readers of the run receive it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from conftest import STEPS
from pawl_client import (
    AsyncClient,
    AsyncRun,
    AsyncTurn,
    Event,
    Reply,
    Run,
    RunStatus,
    StreamGapError,
    TextEvent,
    Worker,
)
from pawl_client._event_reader import EventReader
from pawl_client._event_source import EventSource
from pawl_client.testing import Sidecar
from pawl_client.v1 import run_pb2
from proxy import Proxy
from workers import WAIT, serving


@pytest.fixture
def own() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS]) as process:
        yield process


class Speaker:
    """A handler that outputs one piece for each order of the test."""

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
        """Orders pieces of output. An exception fails the turn, None ends it."""
        for order in orders:
            self._orders.put_nowait(order)


OutputBuffer = tuple[str, str]


async def shown(events: AsyncIterator[Event]) -> AsyncIterator[OutputBuffer]:
    """The kind and the text of each piece of output, and of each reset."""
    async for event in events:
        if event.kind == "text" or event.kind == "reasoning":
            yield event.kind, event.text
        elif event.kind == "reset":
            yield event.kind, ""


async def pulled(run: Run) -> AsyncIterator[Event]:
    """The events that the blocking client reads in a thread."""
    read = iter(run.events())

    def pull() -> Event | None:
        return next(read, None)

    while event := await asyncio.wait_for(asyncio.to_thread(pull), WAIT):
        yield event


@pytest.mark.parametrize("flavour", ["sync", "async"])
async def test_pieces_as_they_come(own: Sidecar, flavour: str) -> None:
    worker = Worker(address=own.address)
    speaker = Speaker(worker)
    with own.client() as client:
        async with own.async_client() as aclient, serving(worker):
            run = client.start("steps", variables={"n": 1})
            watched = aclient.attach(run.id)
            events = pulled(run) if flavour == "sync" else watched.events()
            speaker.say("one ")
            seen = []
            turns = set()
            async for event in events:
                if event.kind == "text":
                    seen.append(event.text)
                    turns.add((event.turn_seq, event.attempt))
                    # Each piece is read before the next one is sent.
                    speaker.say(("zwölf ", "three", None)[len(seen) - 1])
            assert await status(watched) is RunStatus.COMPLETED
    assert seen == ["one ", "zwölf ", "three"]
    assert turns == {(1, 1)}


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
        pieces = []
        async for piece in shown(run.events()):
            pieces.append(piece)
            if len(pieces) == 2:
                seen.set()
    assert pieces == [
        ("reasoning", "hm "),
        ("text", "half"),
        ("reset", ""),
        ("reasoning", "so "),
        ("text", "whole"),
    ]


async def status(run: AsyncRun) -> RunStatus:
    return (await run.wait(timeout=WAIT)).run.status


async def test_from_a_cursor(own: Sidecar) -> None:
    worker = Worker(address=own.address)
    speaker = Speaker(worker)
    async with own.async_client() as client, serving(worker):
        run = await client.start("steps", variables={"n": 1})
        speaker.say("first")
        first = await take(run.events())
        speaker.say("second")
        second = await take(run.events(after=first.cursor))
        assert second.text == "second"
        assert (await take(run.events())).text == "firstsecond"
        # No reader can have received a cursor behind the end of the output.
        *words, _ = first.cursor.split(".")
        events = run.events(after=".".join([*words, "99"]))
        assert (await anext(events)).kind == "reset"
        speaker.say(None)
        assert await status(run) is RunStatus.COMPLETED


async def take(events: AsyncIterator[Event]) -> TextEvent:
    """The first piece of text."""

    async def first() -> TextEvent:
        async for event in events:
            if event.kind == "text":
                await events.aclose()  # type: ignore[attr-defined]
                return event
        raise AssertionError("there is no text")

    return await asyncio.wait_for(first(), WAIT)


async def test_another_attempt_resets_what_was_read(own: Sidecar) -> None:
    worker = Worker(address=own.address)
    speaker = Speaker(worker)
    async with own.async_client() as client, serving(worker):
        run = await client.start("steps", variables={"n": 1})
        speaker.say("wrong")
        seen = []
        async for event in run.events():
            if event.kind not in ("text", "reset"):
                continue
            seen.append((event.kind, event.attempt))
            if len(seen) == 1:
                speaker.say(RuntimeError("again"), "right")
            elif event.kind == "text":
                speaker.say(None)
        assert await status(run) is RunStatus.COMPLETED
    assert seen == [("text", 1), ("reset", 1), ("text", 2)]


async def test_long_pieces_split_no_character(own: Sidecar) -> None:
    worker = Worker(address=own.address)
    speaker = Speaker(worker)
    text = "aäあ🙂" * 20_000
    async with own.async_client() as client, serving(worker):
        run = await client.start("steps", variables={"n": 1})
        speaker.say(text)
        read = ""
        async for kind, piece in shown(run.events()):
            assert kind == "text"
            assert len(piece.encode()) <= 1 << 16
            read += piece
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
            async for kind, piece in shown(run.events()):
                assert kind == "text"
                read += piece
                count = len(read) // 2
                proxy.cut()
                speaker.say(f"{count} " if count < 6 else None)
            assert await status(run) is RunStatus.COMPLETED
    assert read == "0 1 2 3 4 5 "
    assert len(speaker.turns) == 1


async def test_a_sidecar_that_was_restarted(own: Sidecar) -> None:
    """The sidecar has lost the output, and the worker sends it again. A reader continues where it
    was."""
    worker = Worker(address=own.address)
    speaker = Speaker(worker)
    async with own.async_client() as client, serving(worker):
        run = await client.start("steps", variables={"n": 1})
        speaker.say("before ")
        seen = []
        async for piece in shown(run.events()):
            seen.append(piece)
            if len(seen) == 1:
                await asyncio.to_thread(own.restart)
                speaker.say("after")
            else:
                speaker.say(None)
        assert await status(run) is RunStatus.COMPLETED
    assert seen == [("text", "before "), ("text", "after")]


def chunk(offset: int, text: str, *, delivery: int = 1, reset: bool = False) -> object:
    return run_pb2.StreamTransitionsResponse(
        output=run_pb2.OutputChunk(
            turn_seq=1, attempt=1, delivery=delivery, offset=offset, text=text, reset=reset
        )
    )


def read(reader: EventReader, item: object) -> list[OutputBuffer]:
    got = reader.read(item)  # type: ignore[arg-type]
    return [(event.kind, getattr(event, "text", "")) for event in got or ()]


def test_a_reader_proves_what_it_reads() -> None:
    reader = EventReader(namespace="", source=EventSource("r"))
    assert read(reader, chunk(0, "ab")) == [("text", "ab")]
    assert read(reader, chunk(0, "ab")) == []
    with pytest.raises(StreamGapError, match="continues at byte 3, but the last one read was 2"):
        read(reader, chunk(3, "d"))
    after = reader.request().output_after
    assert (after.turn_seq, after.delivery, after.offset) == (1, 1, 2)
    assert read(reader, chunk(9, "xy", reset=True)) == [("reset", ""), ("text", "xy")]
    assert read(reader, chunk(11, "z")) == [("text", "z")]
    assert read(reader, chunk(0, "anew", delivery=2)) == [("reset", ""), ("text", "anew")]
    assert reader.request().output_after.delivery == 2
