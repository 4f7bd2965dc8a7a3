"""Every reader of a run gets the same events, during the run and after it."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import pawl_client
from conftest import ROOT, STEPS
from pawl_client import (
    AsyncClient,
    AsyncTurn,
    ConversationRange,
    Event,
    JsonValue,
    Message,
    ModelAnswer,
    ModelCall,
    ModelMessage,
    ModelRequest,
    Part,
    Reply,
    RunFilter,
    RunStatus,
    StepCall,
    ToolCallRef,
    ToolResult,
    Turn,
    TurnView,
    Worker,
)
from pawl_client.testing import Sidecar
from proxy import Proxy
from screen import Screen
from workers import WAIT, serving

HELD = Path(__file__).parent / "held.pack.json"
N = {"n": 1}


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS, HELD], allow_tools=["*"]) as process:
        yield process


def add(payload: Any) -> Any:
    return payload["a"] + payload["b"]


def talk(turn: Turn) -> Reply:
    """Two turns that think, say something, call a tool and write an artifact."""
    if turn.terminal:
        turn.output("Bye.")
        return Reply(output="Bye.")
    turn.reasoning("hm")
    turn.output("One and two ")
    total = turn.step("add", {"a": 1, "b": 2})
    turn.output(f"is {total}.")
    return Reply(event="Done", artifacts={"sum": total}, output="One and two is 3.")


def talk_again(turn: TurnView) -> Any:
    """The same for a worker that executes a turn of the event loop."""

    async def handle() -> Reply:
        assert isinstance(turn, AsyncTurn)
        if turn.terminal:
            await turn.output("Bye.")
            return Reply(output="Bye.")
        await turn.reasoning("hm")
        await turn.output("One and two ")
        total = await turn.step("add", {"a": 1, "b": 2})
        await turn.output(f"is {total}.")
        return Reply(event="Done", artifacts={"sum": total}, output="One and two is 3.")

    return handle()


TOLD = [
    ("transition", "calc"),
    ("turn_began", "calc"),
    ("reasoning", "hm"),
    ("text", "One and two "),
    ("tool_call", "add"),
    ("tool_result", 3),
    ("text", "is 3."),
    ("message", "assistant"),
    ("turn_ended", "completed"),
    ("transition", "end"),
    ("artifact", "sum"),
    ("turn_began", "end"),
    ("text", "Bye."),
    ("message", "assistant"),
    ("turn_ended", "completed"),
    ("end", "completed"),
]
"""What comes of `talk`, as it comes."""

STORED = [
    told if told[0] != "text" or told[1] == "Bye." else ("text", "One and two is 3.")
    for told in TOLD
    if told not in (("reasoning", "hm"), ("text", "One and two "))
]


def brief(event: Event) -> tuple[str, Any]:
    names = ("text", "to", "state", "result", "tool", "name", "role", "outcome", "on", "reason")
    values = (getattr(event, name) for name in names if hasattr(event, name))
    return event.kind, next((value for value in values if value), None)


async def seen(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


async def test_a_run_that_is_iterated_over(shared: Sidecar) -> None:
    async with shared.async_client() as client:
        driven = client.run("steps", talk_again, tools={"add": add}, variables=N)
        events = await asyncio.wait_for(seen(aiter(driven)), WAIT)
        result = await driven
        assert [brief(event) for event in events] == TOLD
        assert (result.status, result.output[0].text) == (RunStatus.COMPLETED, "Bye.")
        places = [event.cursor for event in events]
        assert len(set(places)) == len(places)
        # Later readers get the same, with the text in one piece.
        run = client.attach(result.run.run_id)
        stored = await seen(run.events())
        assert [brief(event) for event in stored if event.kind != "text"] == [
            told for told in STORED if told[0] != "text"
        ]
        assert texts(stored) == texts(events) == {1: "One and two is 3.", 6: "Bye."}


def texts(events: list[Event]) -> dict[int, str]:
    """The text that a screen shows after the events, by turn."""
    shown: dict[int, str] = {}
    for event in events:
        if event.kind == "reset":
            shown[event.turn_seq] = ""
        elif event.kind == "text":
            shown[event.turn_seq] = shown.get(event.turn_seq, "") + event.text
    return shown


@pytest.mark.parametrize("way", ["run", "drive"])
def test_a_blocking_run_tells_in_the_thread_of_its_caller(shared: Sidecar, way: str) -> None:
    told: list[tuple[str, Any]] = []
    threads: set[int] = set()

    def hear(event: Event) -> None:
        told.append(brief(event))
        threads.add(threading.get_ident())

    how: Any = {"tools": {"add": add}, "on_output": hear}
    with shared.client() as client:
        if way == "run":
            result = client.run("steps", talk, variables=N, **how)
        else:
            result = client.open("steps", variables=N).drive(talk, **how)
    assert told == TOLD
    assert threads == {threading.get_ident()}
    assert result.status is RunStatus.COMPLETED


async def test_on_output_of_coroutines(shared: Sidecar) -> None:
    told: list[tuple[str, Any]] = []

    async def hear(event: Event) -> None:
        await asyncio.sleep(0)
        told.append(brief(event))

    async with shared.async_client() as client:
        driving = client.run("steps", talk_again, tools={"add": add}, variables=N, on_output=hear)
        result = await asyncio.create_task(driving)
    assert told == TOLD
    assert result.status is RunStatus.COMPLETED


@pytest.mark.parametrize("flavour", ["blocking", "coroutines"])
async def test_what_on_output_raises_gives_the_run_up(shared: Sidecar, flavour: str) -> None:
    begun: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "text":
            begun.append(event.run_id)
            raise LookupError("no screen")

    async with shared.async_client() as client:
        hearing: Any = client.run("steps", waits, variables=N, on_output=hear)
        if flavour == "blocking":
            how: Any = {"variables": N, "on_output": hear}
            blocking = shared.client()
            hearing = asyncio.to_thread(blocking.run, "steps", waits_blocking, **how)
        with pytest.raises(LookupError, match="no screen"):
            await asyncio.wait_for(hearing, WAIT)
        # The run continues with the next caller that drives it.
        run = client.attach(begun[0])
        assert (await run.info()).status is RunStatus.RUNNING
        result = await asyncio.wait_for(run.drive(talk_again, tools={"add": add}), WAIT)
        assert result.status is RunStatus.COMPLETED


async def waits(turn: AsyncTurn) -> Reply:
    await turn.output("I wait.")
    await asyncio.Event().wait()
    return Reply()


def waits_blocking(turn: Turn) -> Reply:
    turn.output("I wait.")
    over = time.monotonic() + WAIT
    while time.monotonic() < over:
        turn.output(".")  # It raises after the client has stopped driving the run.
    return Reply()


async def test_leaving_the_iteration_gives_the_run_up(shared: Sidecar) -> None:
    async with shared.async_client() as client:
        events = aiter(client.run("steps", waits, variables=N))
        first = [await anext(events) for _ in range(3)]
        await events.aclose()
        run = client.attach(first[0].run_id)
        result = await asyncio.wait_for(run.drive(talk_again, tools={"add": add}), WAIT)
        assert result.status is RunStatus.COMPLETED


@pytest.mark.parametrize("how", ["break", "raise", "handler"])
@pytest.mark.parametrize("way", ["run", "drive"])
async def test_what_was_left_begins_no_second_run(shared: Sidecar, how: str, way: str) -> None:
    """A later `await` and a second iteration raise the error that ended the driving of the
    run."""
    labels, turns = {"left": f"{how} {way}"}, []

    async def handle(turn: AsyncTurn) -> Reply:
        turns.append(turn.attempt)
        return await waits(turn) if how != "handler" else Reply(event="Strange")

    async with shared.async_client() as client:
        if way == "run":
            driven = client.run("steps", handle, variables=N, labels=labels)
        else:
            driven = (await client.open("steps", variables=N, labels=labels)).drive(handle)
        error = (
            pawl_client.UnknownEventError if how == "handler" else pawl_client.CallCancelledError
        )
        try:
            async for event in driven:
                if event.kind == "text" and how == "raise":
                    raise LookupError("no screen")
                if event.kind == "text":
                    break
        except (LookupError, pawl_client.UnknownEventError):
            pass
        for _ in range(2):
            with pytest.raises(error):
                await asyncio.wait_for(anext(aiter(driven)), WAIT)
            with pytest.raises(error):
                await driven
        assert turns == [1]
        runs = [info async for info in client.list_runs(RunFilter(labels=labels))]
        assert len(runs) == 1


async def test_a_result_is_given_as_often_as_it_is_asked(shared: Sidecar) -> None:
    async with shared.async_client() as client:
        driven = client.run("steps", talk_again, tools={"add": add}, variables=N)
        result = await asyncio.wait_for(driven, WAIT)
        assert await driven is result
        again = await seen(aiter(driven))
        assert {event.run_id for event in again} == {result.run.run_id}
        assert again[-1].kind == "end"


async def test_a_reset_is_of_its_turn(shared: Sidecar) -> None:
    """The second turn is executed again. The output of the first turn stays."""
    attempts: list[int] = []

    async def handle(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply(output="End.")
        if turn.visit == 1:
            await turn.output("First.")
            return Reply(event="Again", output="First.")
        attempts.append(turn.attempt)
        await turn.output("Half" if turn.attempt == 1 else "Second.")
        if turn.attempt == 1:
            raise RuntimeError("no")
        return Reply(event="Done", output="Second.")

    async with shared.async_client() as client:
        events = await seen(aiter(client.run("steps", handle, variables=N)))
        assert attempts == [1, 2]
        resets = [event for event in events if event.kind == "reset"]
        assert [(event.attempt, texts(events)[event.turn_seq]) for event in resets] == [
            (1, "Second.")
        ]
        run = client.attach(events[0].run_id)
        assert list(texts(events).values()) == ["First.", "Second.", "End."]
        assert texts(await seen(run.events())) == texts(events)


async def test_a_held_call_waits_for_a_decision(shared: Sidecar) -> None:
    async with shared.async_client() as client:
        run = await client.open("held")

        async def pay(turn: AsyncTurn) -> Reply:
            return Reply() if turn.terminal else Reply(event=await paid(turn))

        async def paid(turn: AsyncTurn) -> str:
            await turn.step("refund", {"amount": 500})
            return "Done"

        waited = []
        async for event in run.drive(pay, tools={"refund": lambda payload: payload["amount"]}):
            if event.kind == "wait":
                waited.append((event.on, event.tool))
                await run.decide_step(event.step, event.digest, "APPROVE")
        assert waited == [("approval", "refund")]
        stored = [event for event in await seen(run.events()) if event.kind == "wait"]
        assert [(event.on, event.tool) for event in stored] == waited


async def test_a_wait_for_input_and_for_an_event(shared: Sidecar) -> None:
    async def handle(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        return Reply(event="Ask") if turn.messages else Reply(awaiting=pawl_client.Awaiting.INPUT)

    async with shared.async_client() as client:
        run = await client.open("steps", variables=N)
        waits = []
        for content in ("Go.", None):
            events = await asyncio.wait_for(seen(aiter(run.drive(handle))), WAIT)
            waits.append([brief(event)[1] for event in events if event.kind == "wait"])
            if content:
                await run.send_input(content)
        assert waits == [["input"], ["input", "input"]]
        now = await asyncio.wait_for(seen(run.events(follow=False)), WAIT)
        assert [event.kind for event in now][-2:] == ["transition", "wait"]


async def speaks(turn: AsyncTurn) -> Reply:
    """A turn by a model, which calls two tools where a person asks for a sum."""
    if len(turn.messages) > 1:
        SEEN[:] = [(message.role, message.text) for message in turn.messages]
    first = ModelRequest(model="m", messages=(ModelMessage(conversation=ConversationRange()),))
    calls = (
        ModelCall(id="c1", name="add", arguments='{"a": 1, "b": 2}'),
        ModelCall(id="c2", name="nothing", arguments="{}"),
    )
    if len(turn.messages) > 1:
        return Reply(
            conversation_through_step=await answered(turn, 1, first, "You are welcome."),
            awaiting=INPUT,
        )
    step = await answered(turn, 1, first, "I add.", calls)
    await turn.calls([StepCall("add", {"a": 1, "b": 2}, call=ToolCallRef(model_step=step))])
    no = Message(
        role="tool",
        parts=(Part(json=JsonValue({"error": {"code": "UNKNOWN_TOOL", "message": "no"}})),),
        tool_call_id="c2",
    )
    then = ModelRequest(
        model="m",
        previous_step=step,
        messages=(
            ModelMessage(result=ToolResult(step=step + 1, call_id="c1")),
            ModelMessage(message=no),
        ),
    )
    return Reply(
        conversation_through_step=await answered(turn, 2, then, "It is 3."), awaiting=INPUT
    )


INPUT = pawl_client.Awaiting.INPUT
SEEN: list[tuple[str, str]] = []
"""The conversation as the last turn saw it."""


async def answered(
    turn: AsyncTurn,
    round: int,
    request: ModelRequest,
    text: str,
    calls: tuple[ModelCall, ...] = (),
) -> int:
    """The MODEL step of a round, once it is answered."""
    step = (await turn.request_model(round, request)).step
    assert step is not None
    answer = ModelAnswer(parts=(Part(text=text),), calls=calls, finish_reason="stop")
    await turn.output(text)
    await turn.answer_model(step.step, step.attempt, answer)
    return step.step


async def test_the_history_is_what_the_next_turn_sees(shared: Sidecar) -> None:
    async with shared.async_client() as client:
        run = await client.open("steps", variables=N, input="What is 1 + 2?")
        events = await seen(aiter(run.drive(speaks, tools={"add": add})))
        said = [brief(event) for event in events if event.kind in ("text", "message")]
        assert said == [
            ("message", "user"),
            ("text", "I add."),
            ("message", "assistant"),
            ("message", "tool"),
            ("text", "It is 3."),
            ("message", "assistant"),
        ]
        await run.send_input("Thanks.")
        await asyncio.wait_for(run.drive(speaks, tools={"add": add}), WAIT)
        told = await run.messages()
        assert [(m.role, m.text) for m in told] == [
            ("user", "What is 1 + 2?"),
            ("assistant", "I add."),
            ("tool", ""),
            ("assistant", "It is 3."),
            ("user", "Thanks."),
            ("assistant", "You are welcome."),
        ]
        results = [(r.call_id, r.tool, r.ok, r.result) for r in told[2].results]
        assert results == [("c1", "add", True, 3), ("c2", "", False, None)]
    # The turn sees each result as a message of its own.
    once = [message for message in SEEN if message[0] != "tool"]
    assert once == [(m.role, m.text) for m in told[:-1] if m.role != "tool"]


async def test_a_killed_worker(shared: Sidecar) -> None:
    """Readers drop the half of the turn that the killed worker had sent."""
    first = Worker(address=shared.address)
    second = Worker(address=shared.address)
    stuck = asyncio.Event()

    @first.prompt("calc")
    async def dies(turn: AsyncTurn) -> Reply:
        await turn.output("Half")
        stuck.set()
        await asyncio.Event().wait()
        return Reply()

    @second.prompt("calc")
    async def lives(turn: AsyncTurn) -> Reply:
        await turn.output("End." if turn.terminal else "Whole.")
        return Reply() if turn.terminal else Reply(event="Done")

    async with shared.async_client() as client:
        run = await client.start("steps", variables=N)
        watching = asyncio.create_task(seen(run.events()))
        async with serving(first):
            await asyncio.wait_for(stuck.wait(), WAIT)
            halves = run.events()
            async for event in halves:
                if event.kind == "text":
                    break
            await halves.aclose()  # type: ignore[attr-defined]
        async with serving(second):
            events = await asyncio.wait_for(watching, WAIT)
    assert [brief(event) for event in events if event.kind in ("text", "reset")] == [
        ("text", "Half"),
        ("reset", None),
        ("text", "Whole."),
        ("text", "End."),
    ]


async def test_a_stream_that_is_cut_again_and_again(shared: Sidecar) -> None:
    """Also for readers that continue from every cursor: each event comes exactly once."""
    with Proxy(shared.address) as proxy:
        async with shared.async_client() as client, AsyncClient(address=proxy.address) as cut:
            result = await client.run("steps", talk_again, tools={"add": add}, variables=N)
            run_id = result.run.run_id
            whole = await seen(client.attach(run_id).events())
            read = []
            async for event in cut.attach(run_id).events():
                read.append(event)
                proxy.cut()
            assert read == whole
            for at, event in enumerate(whole):
                rest = await seen(client.attach(run_id).events(after=event.cursor))
                assert [brief(one) for one in rest] == [brief(one) for one in whole[at + 1 :]]
            with pytest.raises(
                pawl_client.RequestError, match="after: must be the cursor of an event"
            ):
                await seen(client.attach(run_id).events(after="x"))


async def test_a_reader_of_many_records(shared: Sidecar) -> None:
    """The reader holds one item of the stream at a time, however slow it is."""
    async with shared.async_client() as client:
        run = await client.open("steps", variables=N)
        turn = (await run.turn()).turn
        for first in range(0, 1_000, 500):
            writes = [
                run.set_artifacts({"sum": [n, "x" * 20_000]}, turn_token=turn.token)
                for n in range(first, first + 500)
            ]
            await asyncio.gather(*writes)
        counts = itertools.count()
        tracemalloc.start()
        try:
            async for event in run.events(follow=False):
                if event.kind == "artifact" and next(counts) == 500:
                    tracemalloc.reset_peak()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert next(counts) == 1_000
    assert peak < 8 << 20  # of 20 MB


async def test_a_slow_reader_holds_up_no_run(shared: Sidecar) -> None:
    go = asyncio.Event()

    async def hear(event: Event) -> None:
        if event.kind == "text":
            await go.wait()

    async with shared.async_client() as client:
        run = await client.open("steps", variables=N)
        hearing = asyncio.ensure_future(run.drive(talk_again, tools={"add": add}, on_output=hear))
        waited = await run.wait(timeout=WAIT)
        assert waited.run.status is RunStatus.COMPLETED
        assert not hearing.done()
        go.set()
        assert (await asyncio.wait_for(hearing, WAIT)).status is RunStatus.COMPLETED


def test_the_example_of_the_documentation(shared: Sidecar, capsys: Any) -> None:
    source = (Path(__file__).parent / "screen.py").read_text()
    assert f"```python\n{source}```" in (ROOT / "docs/guides/events.md").read_text()
    with shared.client() as client:
        client.run("steps", talk, tools={"add": add}, variables=N, on_output=Screen().show)
    assert capsys.readouterr().out == "One and two is 3.\nBye.\nCOMPLETED completed\n"
