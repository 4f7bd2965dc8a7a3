"""Durable agents of pydantic-ai: approvals, limits, errors, and what is refused with a reason."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.exceptions import ModelHTTPError, UsageLimitExceeded
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits

from newest_run import run_of
from pawl_client import Client, StepFailedError, StepRefusedError, current_call
from pawl_client.pydantic_ai import (
    Bounds,
    DuplicateAgentError,
    DurableRunError,
    LibraryVersionError,
    NestedAgentError,
    NotSerializableError,
    PawlDurability,
    RunChangedError,
    bounds,
)
from pawl_client.testing import Sidecar
from test_pydantic_ai import Model, ask, call, text


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    flags = ["--step-grace=1s"]
    with Sidecar(allow_tools=["refund", "look", "outer", "many"], flags=flags) as process:
        yield process


def refunding(
    client: Client, name: str, model: Model, limits: Bounds | None = None, *, held: bool = False
) -> tuple[Agent[None, Any], PawlDurability[None], list[float]]:
    """An agent with a tool that refunds, and what it refunded."""
    durability: PawlDurability[None] = PawlDurability(client, bounds=limits)
    agent: Agent[None, Any] = Agent(FunctionModel(model), name=name, capabilities=[durability])
    refunded: list[float] = []

    @agent.tool_plain(requires_approval=held)
    def refund(order: str, amount: float) -> str:
        """Refunds an order."""
        refunded.append(amount)
        return f"refunded {amount:.2f}"

    return agent, durability, refunded


def deciding(client: Client, decision: str, **what: Any) -> threading.Thread:
    """A person who decides about the next held call."""

    def decide() -> None:
        for _ in client.transitions(kinds=["STEP_REQUESTED"]):
            for waiting in client.list_approvals():
                if waiting.call is not None:
                    run = client.attach(waiting.run_id)
                    digest = waiting.call.approval.digest if waiting.call.approval else ""
                    run.decide_step(waiting.call.step, digest, decision, **what)
                    return

    thread = threading.Thread(target=decide, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("held", [False, True], ids=["by bounds", "requires_approval"])
@pytest.mark.parametrize("decision", ["APPROVE", "EDIT", "DENY"])
def test_a_call_waits_for_a_person(client: Client, decision: str, held: bool) -> None:
    name = f"refunds-{decision.lower()}-{held}".lower()
    model = Model([call("refund", order="17", amount=150)], [text("Settled.")])
    limits = None if held else bounds(approve={"refund": "payload.amount > 100.0"})
    agent, durability, refunded = refunding(client, name, model, limits, held=held)
    what: dict[str, Any] = {"reason": "because"}
    if decision == "EDIT":
        what["payload"] = {"order": "17", "amount": 50}
    person = deciding(client, decision, **what)
    with durability.run(request_id=name):
        result = ask(agent, "Refund.")
    person.join()
    assert result.output == "Settled."
    assert refunded == {"APPROVE": [150], "EDIT": [50], "DENY": []}[decision]
    told = str(model.seen[-1])
    assert {"APPROVE": "refunded 150", "EDIT": "refunded 50", "DENY": "because"}[decision] in told
    with durability.run(request_id=name):
        assert ask(agent, "Refund.").output == "Settled."
    assert model.asked == 2


def test_a_small_refund_needs_nobody(client: Client) -> None:
    model = Model([call("refund", order="17", amount=20)], [text("Settled.")])
    limits = bounds(approve={"refund": "payload.amount > 100.0"})
    agent, durability, refunded = refunding(client, "small", model, limits)
    with durability.run(request_id="small"):
        assert ask(agent, "Refund.").output == "Settled."
    assert refunded == [20]


def test_tool_calls_are_bounded(client: Client) -> None:
    model = Model([call("refund", order="17", amount=1)])
    agent, durability, refunded = refunding(client, "bounded", model, bounds(max_tool_calls=2))
    for _ in range(2):
        with durability.run(request_id="bounded"), pytest.raises(DurableRunError) as caught:
            ask(agent, "Refund.")
        assert caught.value.status == "BUDGET_EXHAUSTED"
        assert caught.value.reason == "max_tool_calls"
    assert refunded == [1, 1]


def test_money_is_bounded(client: Client) -> None:
    prices = {"priced": {"input": 1000, "output": 1000}}
    limits = bounds(max_cost_usd=5.0, prices=prices)
    model = Model([call("look")])
    durability: PawlDurability[None] = PawlDurability(client, bounds=limits)
    priced = FunctionModel(model, model_name="priced")
    agent = Agent(priced, name="money", capabilities=[durability])

    @agent.tool_plain
    def look() -> str:
        """Looks."""
        return "nothing"

    with durability.run(request_id="money"), pytest.raises(DurableRunError) as caught:
        ask(agent, "Look.", model_settings={"max_tokens": 1000})
    assert (caught.value.status, caught.value.reason) == ("BUDGET_EXHAUSTED", "max_cost_usd")
    assert model.asked > 1


def test_a_model_that_fails(client: Client) -> None:
    error = ModelHTTPError(400, "gpt", "no such parameter")
    agent, durability, _ = refunding(client, "failing", Model(error))
    for _ in range(2):
        with (
            durability.run(request_id="failing"),
            pytest.raises((ModelHTTPError, DurableRunError)) as caught,
        ):
            ask(agent, "Refund.")
        assert "no such parameter" in str(caught.value)
    assert isinstance(caught.value, DurableRunError)
    assert caught.value.status in ("FAILED", "ESCALATED")


def test_a_model_that_is_busy_is_asked_again(client: Client) -> None:
    busy = ModelHTTPError(503, "gpt", "busy")

    class Busy(Model):
        def __call__(self, messages: Any, info: Any) -> Any:
            if self.asked == 0:
                self.asked = 1
                raise busy
            return super().__call__(messages, info)

    model = Busy([text("Here.")])
    agent, durability, _ = refunding(client, "busy", model)
    with durability.run(request_id="busy"):
        assert ask(agent, "Refund.").output == "Here."
    assert model.asked == 2


def test_a_tool_that_raises(client: Client) -> None:
    durability: PawlDurability[None] = PawlDurability(client)
    model = Model([call("look")], [text("Never.")])
    agent = Agent(FunctionModel(model), name="raising", capabilities=[durability])

    @agent.tool_plain
    def look() -> str:
        """Looks."""
        raise KeyError("station")

    with durability.run(request_id="raising"), pytest.raises(StepFailedError) as caught:
        ask(agent, "Look.")
    assert isinstance(caught.value.__cause__, KeyError)
    with durability.run(request_id="raising"), pytest.raises(DurableRunError):
        ask(agent, "Look.")
    assert model.asked == 1


def test_a_bug_of_the_program_leaves_the_run_open(client: Client) -> None:
    """A program that is corrected continues with what is recorded."""
    model = Model([call("refund", order="17", amount=1)], ZeroDivisionError(), [text("Never.")])
    agent, durability, refunded = refunding(client, "corrected", model)
    with durability.run(request_id="corrected"), pytest.raises(ZeroDivisionError):
        ask(agent, "Refund.")
    model.answers = (model.answers[0], [text("Corrected.")])
    with durability.run(request_id="corrected"):
        assert ask(agent, "Refund.").output == "Corrected."
    assert refunded == [1]


def test_limits_of_the_library(client: Client) -> None:
    model = Model([call("refund", order="17", amount=1)])
    agent, durability, _ = refunding(client, "limited", model)
    with durability.run(request_id="limited"), pytest.raises(UsageLimitExceeded):
        ask(agent, "Refund.", usage_limits=UsageLimits(request_limit=2))
    with durability.run(request_id="limited"), pytest.raises(DurableRunError) as caught:
        ask(agent, "Refund.")
    assert (caught.value.status, caught.value.reason) == ("FAILED", "turn_failed")
    assert "UsageLimitExceeded" in str(caught.value)


def test_a_tool_that_the_operator_does_not_allow(client: Client) -> None:
    durability: PawlDurability[None] = PawlDurability(client)
    model = Model([call("forbidden")])
    agent = Agent(FunctionModel(model), name="forbidden", capabilities=[durability])
    agent.tool_plain(forbidden)
    with (
        durability.run(request_id="forbidden"),
        pytest.raises(StepRefusedError, match="TOOL_NOT_ALLOWED"),
    ):
        ask(agent, "Go.")
    assert run_of(client, "forbidden").info().status == "RUNNING"


def forbidden() -> str:
    """Is not on the list."""
    return ""


def test_a_result_without_a_json_form(client: Client) -> None:
    durability: PawlDurability[None] = PawlDurability(client)
    model = Model([call("look")], [text("Never.")])
    agent = Agent(FunctionModel(model), name="opaque", capabilities=[durability])

    @agent.tool_plain
    def look() -> Any:
        """Looks."""
        return object()

    with durability.run(request_id="opaque"), pytest.raises(NotSerializableError, match="'look'"):
        ask(agent, "Look.")
    assert run_of(client, "opaque").info().reason == "tool_error:look"


def test_an_agent_in_a_tool(client: Client) -> None:
    durability: PawlDurability[None] = PawlDurability(client)
    inner_model, outer_model = Model([text("inside")]), Model([call("outer")], [text("outside")])
    inner = Agent(FunctionModel(inner_model), name="inner", capabilities=[durability])
    agent = Agent(FunctionModel(outer_model), name="outer", capabilities=[durability])
    nested = True

    @agent.tool_plain
    async def outer() -> str:
        """Asks another agent."""
        if nested:
            return str((await inner.run("Hi.")).output)
        with durability.run(request_id=current_call().idempotency_key):
            return str((await inner.run("Hi.")).output)

    with durability.run(request_id="nested"), pytest.raises(StepFailedError) as caught:
        ask(agent, "Go.")
    assert isinstance(caught.value.__cause__, NestedAgentError)
    assert "current_call().idempotency_key" in str(caught.value)
    nested = False
    with durability.run(request_id="nested again"):
        assert ask(agent, "Go.").output == "outside"
    assert run_of(client, "inner").result().text == "inside"


def test_two_agents_with_one_name(client: Client) -> None:
    agent, durability, _ = refunding(client, "twin", Model([text("One.")]))
    other = Agent(FunctionModel(Model([text("Two.")])), name="twin", capabilities=[durability])
    with durability.run(request_id="twin"):
        assert ask(agent, "Hi.").output == "One."
    with durability.run(request_id="twin two"), pytest.raises(DuplicateAgentError, match="name="):
        ask(other, "Hi.")


def waiting(client: Client, name: str) -> Callable[..., None]:
    """A run that an error left open after a tool call, and an agent that continues it."""
    model = Model([call("refund", order="17", amount=1)], ZeroDivisionError())
    agent, durability, _ = refunding(client, name, model)
    with durability.run(request_id=name), pytest.raises(ZeroDivisionError):
        ask(agent, "Refund.")

    def go_on(tool: Any, prompt: str = "Refund.") -> None:
        with client_of(client) as second:
            durability: PawlDurability[None] = PawlDurability(second)
            model = Model([text("-")], [text("Done.")])
            agent = Agent(FunctionModel(model), name=name, capabilities=[durability])
            agent.tool_plain(tool)
            with durability.run(request_id=name):
                assert ask(agent, prompt).output == "Done."

    return go_on


def client_of(client: Client) -> Client:
    """A client as another process has one."""
    return Client(address=client._settings.address)


def test_a_tool_changed_under_a_run(client: Client) -> None:
    def refund(order: str, amount: int, currency: str) -> str:
        """Refunds an order."""
        return ""

    go_on = waiting(client, "changed")
    with pytest.raises(RunChangedError, match="refund") as caught:
        go_on(refund)
    assert caught.value.tools == ("refund",)


def test_a_description_changed_under_a_run(client: Client) -> None:
    def refund(order: str, amount: float) -> str:
        """Refunds an order, in other words."""
        return ""

    waiting(client, "reworded")(refund)


def test_an_id_with_another_prompt(client: Client) -> None:
    def refund(order: str, amount: float) -> str:
        """Refunds an order."""
        return ""

    with pytest.raises(Exception, match="request_id"):
        waiting(client, "reused")(refund, "Something else.")


def test_a_record_of_another_version(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, durability, _ = refunding(client, "older", Model([text("Old.")]))
    envelope = {"library": "pydantic-ai", "version": "1.0.0", "message": {"kind": "unknown"}}
    with durability.run(request_id="older"):
        ask(agent, "Hi.")
    monkeypatch.setattr(
        "pawl_client._durable_pydantic_ai.recorded_message",
        lambda run_id, answer: envelope["message"],
    )
    with durability.run(request_id="older"), pytest.raises(LibraryVersionError, match="2\\."):
        ask(agent, "Hi.")


def test_a_hundred_calls_at_once(client: Client) -> None:
    durability: PawlDurability[None] = PawlDurability(client)
    model = Model([call("many", n=n) for n in range(100)], [text("All.")])
    agent = Agent(FunctionModel(model), name="many", capabilities=[durability])
    made: list[int] = []

    @agent.tool_plain
    async def many(n: int) -> int:
        """One of many."""
        made.append(n)
        return n

    for _ in range(2):
        with durability.run(request_id="many"):
            assert ask(agent, "Go.").output == "All."
    assert sorted(made) == list(range(100))


def test_a_call_for_another_system(client: Client) -> None:
    """External tools end the run with requests, as without a durable run."""
    durability: PawlDurability[None] = PawlDurability(client)
    model = Model([call("look")], [text("Seen.")])
    agent: Agent[None, Any] = Agent(
        FunctionModel(model),
        name="deferring",
        output_type=[str, DeferredToolRequests],
        capabilities=[durability],
    )

    @agent.tool_plain
    def look() -> str:
        """Looks elsewhere."""
        from pydantic_ai import CallDeferred

        raise CallDeferred

    for _ in range(2):
        with durability.run(request_id="deferring"):
            first = ask(agent, "Look.")
            (waits,) = first.output.calls
            results = first.output.build_results(calls={waits.tool_call_id: "a ship"})
            second = asyncio.run(
                agent.run(message_history=first.all_messages(), deferred_tool_results=results)
            )
        assert second.output == "Seen."
    assert model.asked == 2


def test_a_pack_is_visible(client: Client, tmp_path: Path) -> None:
    agent, _, _ = refunding(
        client, "Shown Agent", Model([text("-")]), bounds(max_tool_calls=3, repeat=["refund"])
    )
    pack = PawlDurability.of(agent).pack()
    pack.write(tmp_path / "agent.pack.json")
    document = json.loads((tmp_path / "agent.pack.json").read_text())
    assert document["id"] == "shown-agent"
    engine = document["workflow"]["engine"]
    assert engine["budget"] == {"max_tool_calls": 3}
    assert engine["x_pawl"]["tools"] == {"refund": {"on_unknown": "retry", "attempts": 3}}
    with pytest.raises(ValueError, match="no tool refnd"):
        PawlDurability.of(refunding(client, "typo", Model([]), bounds(repeat=["refnd"]))[0]).pack()
    with pytest.raises(ValueError, match="no PawlDurability"):
        PawlDurability.of(Agent("test"))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "pydantic_ai":
            raise ImportError(name)
        return real(name, *arguments, **named)

    for name in [name for name in sys.modules if name == "pawl_client.pydantic_ai"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'pawl-client\[pydantic-ai\]'"):
        importlib.import_module("pawl_client.pydantic_ai")
