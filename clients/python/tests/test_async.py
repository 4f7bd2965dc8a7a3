"""The asynchronous client: the same nouns, awaited."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conftest import SELF_CORRECTING
from pawl_client import (
    AsyncClient,
    AsyncTurn,
    DeadlineError,
    Fault,
    NotFoundError,
    RecordKind,
    Reply,
    RunFilter,
    RunStatus,
    StepCall,
    StepFailedError,
)
from pawl_client.testing import Script, Sidecar


@pytest.fixture
async def aclient(sidecar: Sidecar) -> AsyncIterator[AsyncClient]:
    async with sidecar.async_client() as client:
        yield client


async def test_run_with_coroutines(aclient: AsyncClient) -> None:
    async def handler(turn: AsyncTurn) -> Reply:
        await asyncio.sleep(0)
        if turn.terminal:
            return Reply(output="bye")
        await turn.set_artifacts({"log": "on the way"})
        total = await turn.step("add", {"a": 2, "b": 3})
        return Reply(event="Done", artifacts={"sum": total})

    async def add(payload: dict[str, int]) -> int:
        return payload["a"] + payload["b"]

    result = await aclient.run("steps", handler, tools={"add": add}, variables={"n": 1})
    assert result.status is RunStatus.COMPLETED
    assert result.artifacts == {"log": "on the way", "sum": 5}
    assert result.run.tool_calls == 1


async def test_run_with_a_plain_function(aclient: AsyncClient) -> None:
    script = Script({"work": [Reply(event="Success")], "complete": [None]})
    assert (await aclient.run("self-correcting", script)).status is RunStatus.COMPLETED


async def test_many_runs_at_once(aclient: AsyncClient) -> None:
    def handler(turn: AsyncTurn) -> Reply:
        return Reply(event="" if turn.terminal else "Success")

    results = await asyncio.gather(*(aclient.run("self-correcting", handler) for _ in range(20)))
    assert {result.status for result in results} == {RunStatus.COMPLETED}


async def test_a_failing_tool(aclient: AsyncClient) -> None:
    caught: list[StepFailedError] = []

    async def handler(turn: AsyncTurn) -> Reply:
        if not turn.terminal:
            with pytest.raises(StepFailedError) as error:
                await turn.step("boom")
            caught.append(error.value)
        return Reply(event="" if turn.terminal else "Done")

    def boom(payload: object) -> None:
        raise OSError("no disk")

    result = await aclient.run("steps", handler, tools={"boom": boom}, variables={"n": 1})
    assert result.status is RunStatus.COMPLETED
    assert caught[0].reason == "OSError"


async def test_the_calls_one_by_one(aclient: AsyncClient) -> None:
    run = await aclient.open("steps", variables={"n": 1}, labels={"async": "1"})
    turn = (await run.turn()).turn
    asked = await run.request_steps(turn, [StepCall("add", {"a": 1, "b": 1})])
    step = asked.outcomes[0].step
    assert step is not None
    assert (await run.suspend(turn)).status is RunStatus.WAITING
    fault = Fault(code="NO")
    answer = await run.resolve_step(step.step, "add", fault, attempt=1, token=turn.token)
    assert answer.disposition == "ACCEPTED"
    turn = (await run.turn()).turn
    await run.fail(turn, Fault(code="X"))
    await run.complete((await run.turn()).turn, Reply(event="Ask"))
    await run.pause()
    await run.resume()
    assert (await run.wait(until="WAITING")).run.state == "ask"
    await run.emit("No")
    assert (await run.send_input("more")).queued
    await run.set_artifacts({"log": "x"}, turn_token=(await run.turn()).turn.token)
    assert (await run.artifacts()) == {"log": "x"}
    assert (await run.snapshot()).run == await run.info()
    await run.cancel()
    kinds = [record.kind async for record in run.records(page_size=1)]
    assert kinds[-1] is RecordKind.ENDED
    listed = [info async for info in aclient.list_runs(RunFilter(labels={"async": "1"}))]
    assert [info.run_id for info in listed] == [run.id]
    streamed = [r async for r in aclient.transitions(follow=False, kinds=["PAUSED"])]
    assert run.id in {r.run_id for r in streamed}


async def test_packs(aclient: AsyncClient) -> None:
    report = await aclient.validate_pack(SELF_CORRECTING)
    assert report.ok
    registered = await aclient.register_pack(SELF_CORRECTING)
    assert registered.duplicate
    assert (await aclient.get_pack("self-correcting")).pack.digest == report.digest
    assert (await aclient.pack_graph("self-correcting")).entry == "work"
    assert "steps" in {pack.id async for pack in aclient.list_packs(page_size=1)}


async def test_start_leaves_turns_to_workers(aclient: AsyncClient) -> None:
    run = await aclient.start("self-correcting")
    assert (await run.info()).execution == "WORKERS"
    unserved = [info.run_id async for info in aclient.list_runs(RunFilter(unserved=True))]
    assert run.id in unserved
    await run.cancel()


async def test_cancelling_a_task_ends_its_stream(aclient: AsyncClient) -> None:
    run = await aclient.open("steps", variables={"n": 1})
    first = asyncio.Event()

    async def read() -> None:
        async for _ in run.transitions():
            first.set()

    task = asyncio.create_task(read())
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await run.cancel()


async def test_a_step_that_nobody_answers(aclient: AsyncClient) -> None:
    async def handler(turn: AsyncTurn) -> Reply:
        await turn.step("add", {"a": 1, "b": 1}, timeout=0.1)
        return Reply()

    result = await aclient.run("steps", handler, worker_tools=["add"], variables={"n": 1})
    assert [type(error) for error in result.errors] == [DeadlineError] * 2
    assert result.run.tool_calls == 1


async def test_errors_are_the_same(aclient: AsyncClient, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        await aclient.open("no-such-pack")
    assert caught.value.reason == "PACK_NOT_FOUND"


async def test_the_deadline_of_a_call() -> None:
    # A port that takes connections and never answers.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with AsyncClient(address=address, timeout=0.1) as client:
            with pytest.raises(DeadlineError):
                await client.get_pack("steps")


async def test_closed_and_opened_again(sidecar: Sidecar) -> None:
    client = sidecar.async_client()
    async with client:
        await client.get_pack("steps")
    async with client:
        await client.get_pack("steps")


async def test_what_a_run_was_started_with(aclient: AsyncClient) -> None:
    run = await aclient.open("steps", variables={"n": 3})
    assert run.started is not None
    assert run.started.turn is not None
    assert await run.variables() == {"n": 3}
    assert (await run.snapshot(include_variables=True)).variables == {"n": 3}
