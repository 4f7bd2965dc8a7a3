"""Durable agents of the OpenAI Agents SDK whose runs, streams and calls stop before their end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from agents import (
    Agent,
    ModelRetrySettings,
    ModelSettings,
    RetryPolicyContext,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseFailedEvent, ResponseIncompleteEvent

from newest_run import requested, run_of
from pawl_client import AsyncClient, Client, StepFailedError, StepResolved
from pawl_client._durable_openai_models import DurableModel
from pawl_client._durable_openai_run import current_run
from pawl_client._durable_run import DurableRun, _Slot
from pawl_client.openai_agents import PawlRunner, RunChangedError
from pawl_client.testing import Sidecar
from scripted_agents import ScriptedModel, call, text
from test_openai_agents import MistakeError

set_tracing_disabled(True)
HERE = Path(__file__).parent
BREAKING = """
import asyncio, sys
from agents import Agent, set_tracing_disabled
from pawl_client import Client
from pawl_client.openai_agents import PawlRunner
from scripted_agents import ScriptedModel, text

set_tracing_disabled(True)
address, kind = sys.argv[1:]

async def main(client):
    agent = Agent(name="breaking", model=ScriptedModel([text("Fine.")]))
    result = PawlRunner(client).run_streamed(agent, "Hi.", request_id=f"breaking-{kind}")
    async for event in result.stream_events():
        if event.type == kind:
            break

with Client(address=address) as client:
    asyncio.run(main(client))
print("ended")
"""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    with Sidecar(allow_tools=["*"], flags=["--step-grace=1s"]) as process:
        yield process


@pytest.mark.parametrize("kind", ["agent_updated_stream_event", "raw_response_event"])
def test_a_process_ends_that_leaves_a_stream(sidecar: Sidecar, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BREAKING, sidecar.address, kind],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "ended\n", done.stderr


async def test_a_run_that_is_cancelled_while_it_opens(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = asyncio.Event()

    async def wait(run: DurableRun, turn: Any) -> None:
        arrived.set()
        await asyncio.Event().wait()

    agent = Agent(name="opening", model=ScriptedModel([text("Fine.")]))
    async with AsyncClient(address=sidecar.address) as client:
        runner = PawlRunner(client)
        with monkeypatch.context() as patched:
            patched.setattr(DurableRun, "_handle", wait)
            task = asyncio.create_task(runner.run(agent, "Hi.", request_id="opening-1"))
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await runner.run(agent, "Hi.", request_id="opening-1")).final_output == "Fine."


def test_a_run_that_fails_while_it_opens(client: Client) -> None:
    """A state with answers that the run has not recorded is refused each time."""

    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pays."""
        return "paid"

    agent = Agent(name="states", model=ScriptedModel([call("pay")]), tools=[pay])
    runner = PawlRunner(client, approvals="sdk")
    state = runner.run_sync(agent, "Pay.", request_id="states-1").to_state()
    for _ in range(2):
        with pytest.raises(RunChangedError, match="has no record of model call 1"):
            runner.run_sync(agent, state, request_id="states-2")


def test_a_call_after_a_timeout_is_the_same_round(client: Client) -> None:
    hangs, stops, looked = [True], [True], list[str]()

    class Model(ScriptedModel):
        async def get_response(self, *rest: Any, **more: Any) -> Any:
            if hangs:
                hangs.pop()
                await asyncio.Event().wait()
            return await super().get_response(*rest, **more)

        def asked_for(self, answers: int) -> None:
            if answers == 1 and stops:
                stops.pop()
                raise MistakeError

    @function_tool
    def look() -> str:
        """Looks."""
        looked.append("once")
        return "seen"

    def timed_out(context: RetryPolicyContext) -> bool:
        return context.normalized.is_timeout

    settings = ModelSettings(timeout=1, retry=ModelRetrySettings(max_retries=9, policy=timed_out))
    model = Model([call("look")], [text("Fine.")])
    agent = Agent(name="timed", model=model, tools=[look], model_settings=settings)
    runner = PawlRunner(client)
    with pytest.raises(MistakeError):
        runner.run_sync(agent, "Go.", request_id="timed-1")
    assert runner.run_sync(agent, "Go.", request_id="timed-1").final_output == "Fine."
    assert looked == ["once"]
    assert {step.key for step in requested(client, "timed")} == {"model/1", "model/1/0", "model/2"}


@pytest.mark.parametrize(
    ("event", "code"),
    [(ResponseIncompleteEvent, "TRUNCATED"), (ResponseFailedEvent, "MODEL_ERROR")],
)
async def test_an_answer_that_the_provider_ends(sidecar: Sidecar, event: Any, code: str) -> None:
    kind = event.model_fields["type"].annotation.__args__[0]

    class Model(ScriptedModel):
        async def stream_response(self, *rest: Any, **more: Any) -> AsyncIterator[Any]:
            async for arriving in super().stream_response(*rest, **more):
                if arriving.type == "response.completed":
                    yield event(type=kind, sequence_number=9, response=arriving.response)
                else:
                    yield arriving

    name = f"ended-{code}".lower().replace("_", "-")
    model = Model([text("Half of")])
    agent = Agent(name=name, model=model)
    async with AsyncClient(address=sidecar.address) as client:
        result = PawlRunner(client).run_streamed(agent, "Hi.", request_id=name)
        with pytest.raises(StepFailedError, match=code):
            async for _ in result.stream_events():
                pass
    assert model.asked == 1
    with sidecar.client() as blocking:
        records = list(run_of(blocking, name).records(kinds=["STEP_RESOLVED"]))
    (body,) = (record.body for record in records)
    assert isinstance(body, StepResolved)
    assert body.error is not None
    assert body.error.code == code


# The calls themselves, without a sidecar


class Recorder:
    """Stands for a run: `model` makes the call and returns what is recorded."""

    def __init__(self, recorded: Any = None) -> None:
        self.recorded = recorded
        self.left = asyncio.Event()

    async def model(self, name: str, request: Any, make: Any) -> Any:
        try:
            await make(request)
            if self.recorded is None:
                await asyncio.Event().wait()
            return self.recorded
        finally:
            self.left.set()
            if self.recorded is None:
                await asyncio.Event().wait()


def streaming(recorder: Recorder) -> Any:
    """The events of a call of a model that answers "Ours."."""
    current_run.set(cast("Any", recorder))
    model = DurableModel(ScriptedModel([text("Ours.")]), "script")
    return model.stream_response(None, "Hi.", ModelSettings(), [], None, [], None)


@pytest.mark.parametrize("words", ["Ours.", "Theirs."])
async def test_the_recorded_answer_counts(words: str) -> None:
    _, recorded = ScriptedModel([text(words)])._answer("Hi.", None)
    *_, last = [event async for event in streaming(Recorder(recorded))]
    assert last.response.output == [text(words)]


async def settled() -> None:
    """Lets the tasks run until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_stream_that_is_cancelled_leaves_no_task() -> None:
    recorder = Recorder()
    events = streaming(recorder)

    async def read() -> None:
        async for _ in events:
            pass

    reading = asyncio.create_task(read())
    others = asyncio.all_tasks() - {reading}
    await settled()
    reading.cancel()
    await recorder.left.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == others


async def test_a_stream_that_is_being_closed_can_be_cancelled() -> None:
    recorder = Recorder()
    events = streaming(recorder)
    await anext(events)
    closing = asyncio.create_task(events.aclose())
    await recorder.left.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def test_a_tool_call_that_is_cancelled_leaves_no_task() -> None:
    loop = asyncio.get_running_loop()
    others, request = asyncio.all_tasks(), loop.create_future()
    waiting = asyncio.create_task(
        DurableRun._serve_slot(cast("Any", None), _Slot(loop), cast("Any", None), request)
    )
    await settled()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == others
