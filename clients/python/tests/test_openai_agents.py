"""Agents of the OpenAI Agents SDK that run durably: what is recorded, replayed and streamed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    RunConfig,
    RunState,
    SQLiteSession,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
    set_tracing_disabled,
)
from pydantic import BaseModel

from newest_run import requested, run_of
from pawl_client import (
    AsyncClient,
    Client,
    RunFilter,
    TurnCompleted,
    current_call,
)
from pawl_client.openai_agents import DurableRunError, PawlRunner, bounds
from pawl_client.testing import Sidecar
from scripted_agents import ScriptedModel, call, text

set_tracing_disabled(True)


class MistakeError(Exception):
    """A mistake of the program, which leaves a run open."""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    with Sidecar(allow_tools=["*"], flags=["--step-grace=1s"]) as process:
        yield process


def acting(client: Client, name: str) -> list[str]:
    """The agents whose requests differ from the one before, in order."""
    return [
        step.model.parameters["agent"]
        for step in requested(client, name)
        if step.model is not None and isinstance(step.model.parameters, dict)
    ]


def looking(calls: list[str]) -> FunctionTool:
    @function_tool
    def look(city: str) -> dict[str, Any]:
        """Looks."""
        calls.append(city)
        return {"zone": 1, "city": city, "air": [1, 2.5]}

    return look


def test_a_run_is_recorded_and_replayed(client: Client) -> None:
    calls: list[str] = []
    model = ScriptedModel(
        [call("look", city="Rome"), call("look", city="Oslo")], [text("Both are fine.")]
    )
    agent = Agent(name="looks", instructions="Be brief.", model=model, tools=[looking(calls)])
    runner = PawlRunner(client)
    first = runner.run_sync(agent, "Look.", request_id="looks-1")
    again = runner.run_sync(agent, "Look.", request_id="looks-1")
    assert first.final_output == again.final_output == "Both are fine."
    assert (sorted(calls), model.asked) == (["Oslo", "Rome"], 2)  # The tools ran at once.
    assert first.to_input_list() == again.to_input_list()
    assert again.context_wrapper.usage.total_tokens == 220
    keys = [step.key for step in requested(client, "looks")]
    assert keys == ["model/1", "model/1/0", "model/1/1", "model/2"]
    info = run_of(client, "looks").info()
    assert (info.status, info.tool_calls, info.tokens) == ("COMPLETED", 2, 220)


def test_the_request_names_the_agent_and_refers_to_results(client: Client) -> None:
    first, second = (step.model for step in requested(client, "looks") if step.model is not None)
    assert first.system == "Be brief."
    assert acting(client, "looks") == ["looks"]
    assert second.previous_step
    assert all(message.result is not None for message in second.messages), second.messages


def test_outside_of_the_runner_a_copy_is_the_agent(client: Client) -> None:
    from agents import Runner

    calls: list[str] = []
    model = ScriptedModel([call("look", city="Rome")], [text("Fine.")])
    agent = Agent(name="plain", model=model, tools=[looking(calls)])
    copy = PawlRunner(client).agent(agent)
    assert asyncio.run(Runner.run(copy, "Look.")).final_output == "Fine."
    assert calls == ["Rome"]
    assert list(client.list_runs(RunFilter(pack="plain"))) == []


async def test_an_async_client(sidecar: Sidecar) -> None:
    calls: list[str] = []
    model = ScriptedModel([call("look", city="Rome")], [text("Fine.")])
    agent = Agent(name="soon", model=model, tools=[looking(calls)])
    async with AsyncClient(address=sidecar.address) as client:
        runner = PawlRunner(client)
        for _ in range(2):
            result = await runner.run(agent, "Look.", request_id="soon-1", labels={"of": "tests"})
            assert result.final_output == "Fine."
    assert (calls, model.asked) == (["Rome"], 2)


def test_a_hundred_parallel_calls(client: Client) -> None:
    done: list[int] = []

    @function_tool
    async def count(number: int) -> int:
        """Counts."""
        await asyncio.sleep(0)
        done.append(number)
        return number

    model = ScriptedModel([call("count", number=n) for n in range(100)], [text("Counted.")])
    agent = Agent(name="hundred", model=model, tools=[count])
    runner = PawlRunner(client)
    for _ in range(2):
        result = runner.run_sync(agent, "Count.", request_id="hundred-1")
        outputs = [i.output for i in result.new_items if i.type == "tool_call_output_item"]
        assert outputs == list(range(100))
    assert sorted(done) == list(range(100))


def test_a_hand_off_is_a_step(client: Client) -> None:
    called: list[str] = []
    billing = Agent(
        name="Billing",
        instructions="You bill.",
        model=ScriptedModel([text("no")], [text("Billed.")]),
        handoff_description="Bills.",
    )
    model = ScriptedModel([call("transfer_to_billing")])
    to_billing = handoff(billing, on_handoff=lambda ctx: called.append("handed"))
    agent = Agent(name="triage", model=model, handoffs=[to_billing])
    runner = PawlRunner(client)
    for _ in range(2):
        result = runner.run_sync(agent, "Bill.", request_id="triage-1")
        assert (result.final_output, result.last_agent.name) == ("Billed.", "Billing")
    assert called == ["handed"]
    steps = requested(client, "triage")
    assert [step.key for step in steps] == ["model/1", "model/1/0", "model/2"]
    assert steps[1].tool == "transfer_to_billing"
    assert acting(client, "triage") == ["triage", "Billing"]
    # The next run begins with the agent that the last one ended with.
    follow = runner.run_sync(result.last_agent, "Again.", request_id="billing-1")
    assert follow.last_agent.name == "Billing"


def test_agents_that_hand_off_to_each_other(client: Client) -> None:
    one = Agent(name="one", model=ScriptedModel([call("transfer_to_two")], [text("Back.")]))
    two = Agent(name="two", model=ScriptedModel([text("")], [call("transfer_to_one")]))
    one.model = ScriptedModel([call("transfer_to_two")], [text("")], [text("Back.")])
    one.handoffs, two.handoffs = [two], [one]
    runner = PawlRunner(client)
    for _ in range(2):
        result = runner.run_sync(one, "Go.", request_id="one-1")
        assert (result.final_output, result.last_agent.name) == ("Back.", "one")


def test_guardrails_are_steps(client: Client) -> None:
    checked: list[str] = []

    @input_guardrail
    def polite(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        checked.append("in")
        return GuardrailFunctionOutput(output_info={"rude": False}, tripwire_triggered=False)

    @output_guardrail
    async def short(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        checked.append("out")
        return GuardrailFunctionOutput(output_info=len(output), tripwire_triggered=False)

    agent = Agent(
        name="guarded",
        model=ScriptedModel([text("Fine.")]),
        input_guardrails=[polite],
        output_guardrails=[short],
    )
    runner = PawlRunner(client)
    for _ in range(2):
        result = runner.run_sync(agent, "Hi.", request_id="guarded-1")
        (given,), (out,) = result.input_guardrail_results, result.output_guardrail_results
        assert (given.output.output_info, out.output.output_info) == ({"rude": False}, 5)
        assert given.guardrail.get_name() == "polite"
    assert sorted(checked) == ["in", "out"]
    keys = sorted(step.key for step in requested(client, "guarded"))
    assert keys == ["guardrail/input/polite", "guardrail/output/short", "model/1"]


@pytest.mark.parametrize("parallel", [True, False])
def test_a_tripwire_ends_the_run(client: Client, parallel: bool) -> None:
    @input_guardrail(run_in_parallel=parallel)
    def never(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info="no", tripwire_triggered=True)

    name = f"tripped-{parallel}".lower()
    agent = Agent(name=name, model=ScriptedModel([text("Fine.")]), input_guardrails=[never])
    runner = PawlRunner(client)
    with pytest.raises(InputGuardrailTripwireTriggered):
        runner.run_sync(agent, "Hi.", request_id=name)
    assert run_of(client, name).info().status == "FAILED"
    with pytest.raises(DurableRunError, match="InputGuardrailTripwireTriggered"):
        runner.run_sync(agent, "Hi.", request_id=name)


class Weather(BaseModel):
    city: str
    degrees: int


def test_structured_output(client: Client) -> None:
    model = ScriptedModel([text('{"city": "Rome", "degrees": 21}')])
    agent = Agent(name="structured", model=model, output_type=Weather)
    runner = PawlRunner(client)
    for _ in range(2):
        result = runner.run_sync(agent, "Weather?", request_id="structured-1")
        assert result.final_output == Weather(city="Rome", degrees=21)
    assert model.asked == 1
    (ended,) = [
        record.body
        for record in run_of(client, "structured").records(kinds=["TURN_COMPLETED"])
        if isinstance(record.body, TurnCompleted)
    ]
    (part,) = ended.output
    assert part.json is not None
    assert part.json.value == {"city": "Rome", "degrees": 21}


def test_results_are_what_the_model_gets(client: Client) -> None:
    @function_tool
    def plain() -> Weather:
        """Is a model."""
        return Weather(city="Rome", degrees=21)

    @function_tool
    def nothing() -> None:
        """Is nothing."""

    model = ScriptedModel([call("plain"), call("nothing")], [text("Fine.")])
    agent = Agent(name="results", model=model, tools=[plain, nothing])
    runner = PawlRunner(client)
    sent = []
    for _ in range(2):
        result = runner.run_sync(agent, "Go.", request_id="results-1")
        sent.append([i.output for i in result.new_items if i.type == "tool_call_output_item"])
    assert sent[0] == sent[1] == ["city='Rome' degrees=21", None]


def test_a_tool_that_raises_tells_the_model(client: Client) -> None:
    tried: list[int] = []

    @function_tool(failure_error_function=lambda ctx, error: f"It failed: {error}")
    def fails() -> str:
        """Fails."""
        tried.append(1)
        raise ValueError("no such order")

    model = ScriptedModel([call("fails")], [text("Sorry.")])
    agent = Agent(name="fails", model=model, tools=[fails])
    runner = PawlRunner(client)
    for _ in range(2):
        assert runner.run_sync(agent, "Go.", request_id="fails-1").final_output == "Sorry."
    assert tried == [1]
    assert "It failed: no such order" in json.dumps(model.seen[-1])


async def test_streaming(sidecar: Sidecar) -> None:
    calls: list[str] = []
    model = ScriptedModel([call("look", city="Rome")], [text("Fine.")])
    agent = Agent(name="streamed", model=model, tools=[looking(calls)])
    async with AsyncClient(address=sidecar.address) as client:
        runner = PawlRunner(client)
        deltas = []
        for _ in range(2):
            result = runner.run_streamed(agent, "Look.", request_id="streamed-1")
            events = [event async for event in result.stream_events()]
            raw = [e.data.type for e in events if e.type == "raw_response_event"]
            deltas.append(raw.count("response.output_text.delta"))
            assert raw.count("response.completed") == 2
            items = [e.item.type for e in events if e.type == "run_item_stream_event"]
            assert items == ["tool_call_item", "tool_call_output_item", "message_output_item"]
            assert result.final_output == "Fine."
        assert deltas == [4, 0]
        assert (calls, model.asked) == (["Rome"], 2)
        (info,) = [info async for info in client.list_runs(RunFilter(pack="streamed"))]
        assert info.status == "COMPLETED"


async def test_a_cancelled_stream_is_continued(sidecar: Sidecar) -> None:
    calls: list[str] = []
    model = ScriptedModel([call("look", city="Rome")], [text("Fine.")])
    agent = Agent(name="cancelled", model=model, tools=[looking(calls)])
    async with AsyncClient(address=sidecar.address) as client:
        runner = PawlRunner(client)
        result = runner.run_streamed(agent, "Look.", request_id="cancelled-1")
        async for event in result.stream_events():
            if event.type == "run_item_stream_event" and "output" in event.item.type:
                result.cancel()
        (info,) = [info async for info in client.list_runs(RunFilter(pack="cancelled"))]
        assert info.status != "COMPLETED"
        assert (await runner.run(agent, "Look.", request_id="cancelled-1")).final_output == "Fine."
    assert calls == ["Rome"]
    assert model.asked <= 3


async def test_a_stream_that_is_cancelled_after_its_turn_is_continued(sidecar: Sidecar) -> None:
    calls: list[str] = []
    model = ScriptedModel([call("look", city="Rome")], [text("Fine.")])
    agent = Agent(name="after", model=model, tools=[looking(calls)])
    async with AsyncClient(address=sidecar.address) as client:
        runner = PawlRunner(client)
        result = runner.run_streamed(agent, "Look.", request_id="after-1")
        async for event in result.stream_events():
            if event.type == "run_item_stream_event":
                result.cancel(mode="after_turn")
        assert result.final_output is None
        (info,) = [info async for info in client.list_runs(RunFilter(pack="after"))]
        assert info.status != "COMPLETED"
        assert (await runner.run(agent, "Look.", request_id="after-1")).final_output == "Fine."
    assert (calls, model.asked) == (["Rome"], 2)


def test_a_session(client: Client, tmp_path: Path) -> None:
    """A run that stops after its first answer finds the same history when it is continued."""
    session = SQLiteSession("talk", tmp_path / "sessions.db")
    runner, stops = PawlRunner(client), [True]

    @function_tool(failure_error_function=None)
    def stop() -> str:
        """Stops the program, once."""
        return "went on"

    class Model(ScriptedModel):
        def asked_for(self, answers: int) -> None:
            if answers == 1 and stops:
                stops.pop()
                raise MistakeError

    talk = Agent(name="talk", model=ScriptedModel([text("Hello.")]))
    runner.run_sync(talk, "Hi.", request_id="talk-1", session=session)
    model = Model([call("stop")], [text("Bye.")])
    agent = Agent(name="talk2", model=model, tools=[stop])
    with pytest.raises(MistakeError):
        runner.run_sync(agent, "Stop.", request_id="talk-2", session=session)
    for _ in range(2):
        result = runner.run_sync(agent, "Stop.", request_id="talk-2", session=session)
        assert result.final_output == "Bye."
    items: list[Any] = asyncio.run(session.get_items())
    kinds = [item.get("type", item.get("role")) for item in items]
    first = ["user", "message"]
    assert kinds == [*first, "user", "function_call", "function_call_output", "message"]
    assert [len(seen) for seen in model.seen] == [3, 5, 5]
    third = runner.run_sync(talk, "And?", request_id="talk-3", session=session)
    assert len(third.to_input_list()) == 8


def test_a_run_config_of_the_program(client: Client) -> None:
    model = ScriptedModel([text("Fine.")])
    agent: Agent[None] = Agent(name="configured", model="unknown-model")
    runner = PawlRunner(client)
    config = RunConfig(model=model)
    for _ in range(2):
        result = runner.run_sync(agent, "Hi.", request_id="configured-1", run_config=config)
        assert result.final_output == "Fine."
    assert model.asked == 1


def test_the_key_of_a_call_and_a_run_in_a_tool(client: Client) -> None:
    keys: list[str] = []
    inner_model = ScriptedModel([text("Inner.")])
    inner: Agent[None] = Agent(name="inner", model=inner_model)
    runner = PawlRunner(client, bounds=bounds(repeat=["ask"]))
    inside = PawlRunner(client)

    @function_tool
    async def ask() -> str:
        """Asks the other agent."""
        keys.append(current_call().idempotency_key)
        result = await inside.run(inner, "Hi.", request_id=keys[-1])
        return str(result.final_output)

    model = ScriptedModel([call("ask")], [text("Outer.")])
    agent = Agent(name="outer", model=model, tools=[ask])
    for _ in range(2):
        assert runner.run_sync(agent, "Go.", request_id="outer-1").final_output == "Outer."
    assert (len(keys), inner_model.asked) == (1, 1)


def test_an_interrupted_state_is_continued(client: Client) -> None:
    """With approvals="sdk" a call is decided in the SDK's own words, in another process too."""
    paid: list[float] = []

    @function_tool(needs_approval=True)
    def pay(amount: float) -> str:
        """Pays."""
        paid.append(amount)
        return f"paid {amount}"

    model = ScriptedModel([call("pay", amount=5)], [text("Settled.")])
    agent = Agent(name="interrupted", model=model, tools=[pay])
    runner = PawlRunner(client, approvals="sdk")
    result = runner.run_sync(agent, "Pay.", request_id="interrupted-1")
    assert [item.name for item in result.interruptions] == ["pay"]
    stored = result.to_state().to_string()

    async def decided() -> Any:
        state = await RunState.from_string(runner.agent(agent), stored)
        (waiting,) = state.get_interruptions()
        state.approve(waiting)
        return state

    for _ in range(2):
        state = asyncio.run(decided())
        result = runner.run_sync(agent, state, request_id="interrupted-1")
        assert result.final_output == "Settled."
    assert (paid, model.asked) == ([5.0], 2)
    keys = [step.key for step in requested(client, "interrupted")]
    assert keys == ["model/1", "model/1/0", "model/2"]
