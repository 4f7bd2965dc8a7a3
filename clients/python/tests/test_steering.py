"""Messages of people to active runs, and how people stop runs, against a real sidecar."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from conftest import STEPS
from pawl_client import (
    AsyncTurn,
    Client,
    Message,
    Reply,
    RunFilter,
    RunStatus,
    Steered,
    SteerWhen,
    Stopped,
    Worker,
)
from pawl_client.testing import Sidecar
from scripted import Says, Scripted
from vendors import LEAVE, adds, awaiting, blocking, played
from workers import WAIT, ended, serving


def test_a_model_hears_what_is_said_while_its_tool_runs(client: Client, vendor: str) -> None:
    label = {"steered": vendor}

    def add(payload: dict[str, Any]) -> Any:
        [run] = client.list_runs(RunFilter(labels=label))
        client.attach(run.run_id).steer("Go left.")
        return payload["a"] + payload["b"]

    script = Says("I add.", adds(1)), Says("", [LEAVE]), Says("All done.")
    result, endpoint = played(client, vendor, "steps", *script, tools={"add": add}, labels=label)
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    said = [json.dumps(request).count("Go left.") for request in endpoint.requests]
    assert said == [0, 1, 0]
    [record] = client.attach(result.run.run_id).records(kinds=["STEERED"])
    assert record.body == Steered(text="Go left.", when=SteerWhen.NEXT_MODEL_CALL)


async def test_now_ends_the_handler_and_a_stop_the_run(sidecar: Sidecar) -> None:
    started, over = asyncio.Event(), asyncio.Event()
    heard: list[list[Message]] = []
    worker = Worker(address=sidecar.address, packs=["self-correcting"])

    @worker.prompt("worker")
    async def answer(turn: AsyncTurn) -> Reply:
        heard.append(list(turn.messages))
        if turn.terminal or len(heard) > 2:
            return Reply() if turn.terminal else Reply(event="Success")
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.set()
        raise AssertionError

    with sidecar.client() as client:
        async with serving(worker):
            run = client.start("self-correcting")
            await asyncio.wait_for(started.wait(), WAIT)
            started.clear()
            await asyncio.to_thread(run.steer, "No, right.", when="NOW")
            await asyncio.wait_for(over.wait(), WAIT)
            await asyncio.wait_for(started.wait(), WAIT)
            over.clear()
            stopped = await asyncio.to_thread(run.stop, "enough")
            assert stopped.status is RunStatus.WAITING
            await asyncio.wait_for(over.wait(), WAIT)
            await asyncio.to_thread(run.send_input, "Go on.")
            assert await ended(run) is RunStatus.COMPLETED
        bodies = [r.body for r in run.records(kinds=["STOPPED"])]
    assert [part.text for part in heard[1][-1].parts] == ["No, right."]
    assert [message.parts[0].text for message in heard[2][-2:]] == ["No, right.", "Go on."]
    assert [b.note for b in bodies if isinstance(b, Stopped)] == ["", "enough"]


class Away(Scripted):
    """An endpoint that sends a message to the run and restarts the sidecar before it gives its
    first answer."""

    def __init__(self, sidecar: Sidecar, *script: Says) -> None:
        super().__init__(*script)
        self._sidecar = sidecar

    def answer(self, path: str, body: dict[str, Any]) -> bytes | Says:
        if not self.requests:
            with self._sidecar.client() as client:
                [run] = client.list_runs()
                client.attach(run.run_id).steer("Go left.")
            self._sidecar.restart()
        return super().answer(path, body)


SCRIPT = Says("I add.", adds(1)), Says("", [LEAVE]), Says("All done.")


def heard(endpoint: Scripted) -> list[int]:
    """How often each request contains the message. The first answer was to a request without it,
    and the model of that request is asked again."""
    return [json.dumps(request).count("Go left.") for request in endpoint.requests]


def test_what_is_said_is_heard_although_the_sidecar_is_killed(vendor: str) -> None:
    with Sidecar(packs=[STEPS], allow_tools=["add"]) as process, process.client() as client:
        with Away(process, Says("Never mind."), *SCRIPT) as endpoint:
            handler = blocking(vendor, endpoint.url)
            tools = {"add": lambda payload: payload["a"]}
            result = client.run("steps", handler, tools=tools, variables={"n": 1})
        assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert heard(endpoint) == [0, 1, 1, 0]


async def test_so_do_coroutines(vendor: str) -> None:
    with Sidecar(packs=[STEPS], allow_tools=["add"]) as process:
        async with process.async_client() as client:
            with Away(process, Says("Never mind."), *SCRIPT) as endpoint:
                handler = awaiting(vendor, endpoint.url)
                tools = {"add": lambda payload: payload["a"]}
                result = await client.run("steps", handler, tools=tools, variables={"n": 1})
        assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert heard(endpoint) == [0, 1, 1, 0]
