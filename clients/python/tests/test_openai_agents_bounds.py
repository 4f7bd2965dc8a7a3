"""Durable agents of the OpenAI Agents SDK: approvals, limits, errors, and what is refused."""

from __future__ import annotations

import builtins
import gc
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    LocalShellTool,
    MaxTurnsExceeded,
    ModelBehaviorError,
    OpenAIConversationsSession,
    UserError,
    function_tool,
    set_tracing_disabled,
)
from openai import APIConnectionError, AsyncOpenAI, BadRequestError

from newest_run import run_of
from pawl_client import Client, StepRefusedError, current_call
from pawl_client._durable_begin import _packs
from pawl_client._models import ModelAnswer
from pawl_client.openai_agents import (
    Bounds,
    DuplicateAgentError,
    DuplicateToolError,
    DurableRunError,
    LibraryVersionError,
    NestedAgentError,
    NotDurableError,
    NotSerializableError,
    PawlRunner,
    RunChangedError,
    bounds,
)
from pawl_client.testing import Sidecar
from scripted_agents import ScriptedModel, call, text
from test_openai_agents import MistakeError
from test_pydantic_ai_bounds import deciding

set_tracing_disabled(True)


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    flags = ["--step-grace=1s"]
    with Sidecar(allow_tools=["refund", "look", "outer"], flags=flags) as process:
        yield process


def refunding(
    client: Client,
    name: str,
    model: ScriptedModel,
    limits: Bounds | None = None,
    *,
    held: bool = False,
) -> tuple[Callable[[], Any], list[float]]:
    """A run of an agent with a tool that refunds, and what it refunded."""
    refunded: list[float] = []

    @function_tool(needs_approval=held)
    def refund(order: str, amount: float) -> str:
        """Refunds an order."""
        refunded.append(amount)
        return f"refunded {amount:.2f}"

    agent = Agent(name=name, model=model, tools=[refund])
    runner = PawlRunner(client, bounds=limits)
    return lambda: runner.run_sync(agent, "Refund.", request_id=name), refunded


@pytest.mark.parametrize("held", [False, True], ids=["by bounds", "needs_approval"])
@pytest.mark.parametrize("decision", ["APPROVE", "EDIT", "DENY"])
def test_a_call_waits_for_a_person(client: Client, decision: str, held: bool) -> None:
    name = f"refunds-{decision}-{held}".lower()
    model = ScriptedModel([call("refund", order="17", amount=150)], [text("Settled.")])
    limits = None if held else bounds(approve={"refund": "payload.amount > 100.0"})
    run, refunded = refunding(client, name, model, limits, held=held)
    what: dict[str, Any] = {"reason": "because"}
    if decision == "EDIT":
        what["payload"] = {"order": "17", "amount": 50}
    person = deciding(client, decision, **what)
    assert run().final_output == "Settled."
    person.join()
    assert refunded == {"APPROVE": [150], "EDIT": [50], "DENY": []}[decision]
    told = json.dumps(model.seen[-1])
    assert {"APPROVE": "refunded 150", "EDIT": "refunded 50", "DENY": "because"}[decision] in told
    assert run().final_output == "Settled."
    assert model.asked == 2


def test_tool_calls_are_bounded(client: Client) -> None:
    model = ScriptedModel([call("refund", order="17", amount=1)])
    run, refunded = refunding(client, "bounded", model, bounds(max_tool_calls=2))
    for _ in range(2):
        with pytest.raises(DurableRunError) as caught:
            run()
        assert caught.value.status == "BUDGET_EXHAUSTED"
        assert caught.value.reason == "max_tool_calls"
    assert refunded == [1, 1]


def test_money_is_bounded(client: Client) -> None:
    limits = bounds(max_cost_usd=1.0, prices={"ScriptedModel": {"input": 1000, "output": 1000}})
    model = ScriptedModel([call("refund", order="17", amount=1)])
    run, _ = refunding(client, "money", model, limits)
    with pytest.raises(DurableRunError) as caught:
        run()
    assert (caught.value.status, caught.value.reason) == ("BUDGET_EXHAUSTED", "max_cost_usd")


def test_the_sdk_s_limit_ends_the_run(client: Client) -> None:
    model = ScriptedModel([call("refund", order="17", amount=1)])
    agent = Agent(name="turns", model=model, tools=[])

    @function_tool
    def refund(order: str, amount: float) -> str:
        """Refunds."""
        return "ok"

    agent.tools = [refund]
    runner = PawlRunner(client)
    with pytest.raises(MaxTurnsExceeded):
        runner.run_sync(agent, "Go.", request_id="turns", max_turns=2)
    with pytest.raises(DurableRunError, match="MaxTurnsExceeded"):
        runner.run_sync(agent, "Go.", request_id="turns", max_turns=2)
    assert model.asked == 2


def failing(status: int) -> Exception:
    import httpx2

    request = httpx2.Request("POST", "https://models.example/v1/responses")
    if not status:
        return APIConnectionError(request=request)
    response = httpx2.Response(status, request=request)
    return BadRequestError("no such model", response=response, body={"message": "no such model"})


def test_a_model_that_fails(client: Client) -> None:
    model = ScriptedModel(failing(400))
    run, _ = refunding(client, "failing", model)
    with pytest.raises(BadRequestError, match="no such model"):
        run()
    assert model.asked == 1
    with pytest.raises(DurableRunError, match="no such model"):
        run()


def test_a_model_that_fails_for_a_moment(client: Client) -> None:
    class Model(ScriptedModel):
        def asked_for(self, answers: int) -> None:
            if self.asked == 1:
                raise failing(0)

    model = Model([text("Here.")])
    run, _ = refunding(client, "moment", model)
    assert run().final_output == "Here."
    assert model.asked == 2


def test_a_mistake_leaves_the_run_open(client: Client) -> None:
    class Model(ScriptedModel):
        def asked_for(self, answers: int) -> None:
            if answers == 1 and self.asked == 2:
                raise MistakeError

    model = Model([call("refund", order="17", amount=5)], [text("Settled.")])
    run, refunded = refunding(client, "mistaken", model)
    with pytest.raises(MistakeError):
        run()
    assert run().final_output == "Settled."
    assert (refunded, model.asked) == ([5], 3)


def test_a_tool_s_own_error(client: Client) -> None:
    @function_tool(failure_error_function=None)
    def look() -> str:
        """Fails."""
        raise ValueError("no such order")

    agent = Agent(name="raising", model=ScriptedModel([call("look")]), tools=[look])
    runner = PawlRunner(client)
    with pytest.raises(UserError, match="no such order"):
        runner.run_sync(agent, "Go.", request_id="raising")
    assert run_of(client, "raising").info().status == "FAILED"


def test_arguments_that_do_not_fit(client: Client) -> None:
    model = ScriptedModel([call("refund", order=17)], [text("Sorry.")])
    run, refunded = refunding(client, "misfit", model)
    assert run().final_output == "Sorry."
    assert "An error occurred" in json.dumps(model.seen[-1])
    assert refunded == []


@pytest.mark.parametrize("arguments", ["{", "[17]"])
def test_arguments_that_are_no_object(client: Client, arguments: str) -> None:
    called: list[str] = []

    async def invoke(context: Any, text: str) -> str:
        called.append(text)
        return "looked"

    @function_tool(failure_error_function=None)
    def strict(order: str) -> str:
        """Has no text for errors."""
        return order

    schema: dict[str, Any] = {"type": "object", "properties": {}}
    look = FunctionTool("look", "Looks.", schema, invoke)
    broken = {"arguments": arguments}
    model = ScriptedModel([call("look").model_copy(update=broken)], [text("Sorry.")])
    runner, name = PawlRunner(client), f"broken-{len(arguments)}"
    agent = Agent(name=name, model=model, tools=[look])
    assert runner.run_sync(agent, "Go.", request_id=name).final_output == "Sorry."
    assert "An error occurred while running the tool" in json.dumps(model.seen[-1])
    assert called == []
    model = ScriptedModel([call("strict").model_copy(update=broken)])
    agent = Agent(name=f"strict-{name}", model=model, tools=[strict])
    with pytest.raises(ModelBehaviorError, match="Invalid JSON input for tool strict"):
        runner.run_sync(agent, "Go.", request_id=f"strict-{name}")


def test_a_tool_that_the_operator_does_not_allow(client: Client) -> None:
    @function_tool
    def forbidden() -> str:
        """Is not allowed."""
        return ""

    agent = Agent(name="forbidden", model=ScriptedModel([call("forbidden")]), tools=[forbidden])
    with pytest.raises(StepRefusedError, match="TOOL_NOT_ALLOWED"):
        PawlRunner(client).run_sync(agent, "Go.", request_id="forbidden")


def test_a_changed_tool_is_named(sidecar: Sidecar) -> None:
    def agent_of(fails: bool, *, changed: bool) -> Agent[None]:
        @function_tool
        def look(city: str) -> str:
            """Looks."""
            return city

        @function_tool(name_override="look")
        def other(country: str) -> str:
            """Looks."""
            return country

        class Model(ScriptedModel):
            def asked_for(self, answers: int) -> None:
                if answers and fails:
                    raise MistakeError

        model = Model([call("look", city="Rome")], [text("Fine.")])
        return Agent(name="changing", model=model, tools=[other if changed else look])

    def run(agent: Agent[None]) -> Any:
        # A client of its own is what another process has.
        with sidecar.client() as client:
            return PawlRunner(client).run_sync(agent, "Go.", request_id="changing")

    with pytest.raises(MistakeError):
        run(agent_of(True, changed=False))
    with pytest.raises(RunChangedError) as caught:
        run(agent_of(False, changed=True))
    assert caught.value.tools == ("look",)
    assert run(agent_of(False, changed=False)).final_output == "Fine."


def test_names_are_known_once(client: Client) -> None:
    @function_tool
    def look(city: str) -> str:
        """Looks."""
        return city

    @function_tool(name_override="look")
    def other(country: str) -> str:
        """Looks."""
        return country

    runner = PawlRunner(client)
    twin = Agent[None](name="twin", handoffs=[Agent(name="twin")])
    with pytest.raises(DuplicateAgentError, match="twin"):
        runner.run_sync(twin, "Go.", request_id="twin")
    second = Agent[None](name="second", tools=[other])
    first = Agent[None](name="first", tools=[look], handoffs=[second])
    with pytest.raises(DuplicateToolError, match="look"):
        runner.run_sync(first, "Go.", request_id="first")
    one = Agent[None](name="same", model=ScriptedModel([text("")]), tools=[look])
    runner.run_sync(one, "Go.", request_id="same-1")
    with pytest.raises(DuplicateAgentError, match="same"):
        runner.run_sync(
            Agent(name="same", model=ScriptedModel([text("")]), tools=[other]),
            "Go.",
            request_id="same-2",
        )


def test_the_names_of_a_client_go_with_it(sidecar: Sidecar) -> None:
    with sidecar.client() as client:
        agent = Agent[None](name="going", model=ScriptedModel([text("Fine.")]))
        PawlRunner(client).run_sync(agent, "Go.", request_id="going")
        assert "going" in _packs[client]
    before = len(_packs)
    del client
    gc.collect()
    assert len(_packs) < before


def test_what_cannot_be_durable_is_named(client: Client) -> None:
    runner = PawlRunner(client)
    shell = LocalShellTool(executor=lambda request: "")
    with pytest.raises(NotDurableError, match="local_shell"):
        runner.run_sync(Agent(name="shell", tools=[shell]), "Go.", request_id="shell")
    talk = OpenAIConversationsSession(openai_client=AsyncOpenAI(api_key="none"))
    with pytest.raises(NotDurableError, match="OpenAIConversationsSession"):
        runner.run_sync(Agent(name="talk"), "Go.", request_id="talk", session=talk)
    with pytest.raises(ValueError, match="request_id"):
        runner.run_sync(Agent(name="empty"), "Go.", request_id="")


def test_a_result_without_a_form(client: Client) -> None:
    class Socket:
        pass

    @function_tool
    def look() -> Any:
        """Returns what has no form."""
        return Socket()

    agent = Agent(name="formless", model=ScriptedModel([call("look")]), tools=[look])
    with pytest.raises(NotSerializableError, match="Socket"):
        PawlRunner(client).run_sync(agent, "Go.", request_id="formless")
    assert run_of(client, "formless").info().status == "ESCALATED"


def test_a_context_is_never_recorded(client: Client) -> None:
    context = {"lock": builtins.open}

    @function_tool
    def look() -> str:
        """Looks."""
        return current_call().key

    agent = Agent[Any](
        name="context", model=ScriptedModel([call("look")], [text("Fine.")]), tools=[look]
    )
    result = PawlRunner(client).run_sync(agent, "Go.", request_id="context", context=context)
    assert (result.final_output, result.context_wrapper.context) == ("Fine.", context)
    assert "built-in function" not in repr(list(run_of(client, "context").records()))


def test_a_run_inside_of_its_own_tool(client: Client) -> None:
    runner = PawlRunner(client)

    @function_tool(failure_error_function=None)
    async def outer() -> str:
        """Runs an agent under the same id."""
        inner = Agent[None](name="inner", model=ScriptedModel([text("")]))
        return str((await runner.run(inner, "Go.", request_id="nested")).final_output)

    agent = Agent(name="nested", model=ScriptedModel([call("outer")]), tools=[outer])
    with pytest.raises(UserError) as caught:
        runner.run_sync(agent, "Go.", request_id="nested")
    assert isinstance(caught.value.__cause__, NestedAgentError)


def test_a_record_of_another_version(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run_module: Any = importlib.import_module("pawl_client._durable_openai_run")
    real = run_module.answer_of

    def other(*arguments: Any) -> ModelAnswer:
        answer: ModelAnswer = real(*arguments)
        assert isinstance(answer.provider, dict)
        answer.provider["message"] = {"of": "the future"}
        return answer

    run, _ = refunding(client, "versions", ScriptedModel([text("Fine.")]))
    monkeypatch.setattr(run_module, "answer_of", other)
    with pytest.raises(LibraryVersionError, match="openai-agents"):
        run()


def test_the_pack_is_visible(client: Client) -> None:
    @function_tool(needs_approval=True)
    def refund(amount: float) -> str:
        """Refunds."""
        return ""

    billing = Agent[None](name="Billing", tools=[refund])
    pack = PawlRunner(client, name="desk").pack(Agent(name="triage", handoffs=[billing]))
    document = json.loads(pack.json())
    assert document["id"] == "desk"
    assert sorted(document["tools"]) == ["refund", "transfer_to_billing"]


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "agents":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "pawl_client.openai_agents")
    with pytest.raises(ImportError, match=r"pawl-client\[openai-agents\]"):
        importlib.import_module("pawl_client.openai_agents")
