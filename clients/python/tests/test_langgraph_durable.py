"""Graphs of LangGraph that run durably: what is recorded, replayed, streamed and refused."""

from __future__ import annotations

import asyncio
import importlib
import json
import operator
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, InjectedToolArg, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, tools_condition
from langgraph.types import Command, RetryPolicy, Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from newest_run import requested, run_of
from pawl_client import (
    AsyncClient,
    Client,
    IdReusedError,
    RunFilter,
    StepFailedError,
    StepRefusedError,
    current_call,
)
from pawl_client.langgraph import (
    DuplicateAgentError,
    DuplicateToolError,
    DurableGraph,
    DurableRunError,
    LibraryVersionError,
    NestedAgentError,
    NotDurableError,
    NotDurableWarning,
    NotSerializableError,
    PawlDurability,
    PawlSaver,
    RunChangedError,
    ToolChangedWarning,
    bounds,
)
from pawl_client.testing import Sidecar
from scripted_chat import ScriptedChat
from test_pydantic_ai_bounds import deciding


class MistakeError(Exception):
    """A mistake of the program, which leaves a run open."""


class Said(TypedDict):
    said: Annotated[list[str], operator.add]


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    allowed = ["look", "refund", "count", "outer", "pay", "pick", "fails", "ask"]
    with Sidecar(allow_tools=allowed, flags=["--step-grace=1s"]) as process:
        yield process


def looking(calls: list[Any]) -> BaseTool:
    @tool
    def look(city: str) -> str:
        """Looks."""
        calls.append(city)
        return f"{city} is fine"

    return look


def agent(
    durability: PawlDurability,
    name: str,
    model: ScriptedChat,
    *tools: BaseTool,
    saver: Any = None,
    **options: Any,
) -> DurableGraph:
    """A graph of a model and its tools, as LangGraph's tutorial has it."""
    made = [durability.durable(one) for one in tools]
    bound = durability.durable(model.bind_tools(made))

    def chatbot(state: MessagesState) -> dict[str, Any]:
        return {"messages": [bound.invoke(state["messages"])]}

    async def achatbot(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("chatbot", RunnableLambda(chatbot, afunc=achatbot))
    builder.add_node("tools", ToolNode(made, **options))
    builder.add_edge(START, "chatbot")
    builder.add_conditional_edges("chatbot", tools_condition)
    builder.add_edge("tools", "chatbot")
    return durability.durable(builder.compile(name=name, checkpointer=saver))


def said(result: Any) -> list[str]:
    """The texts of a conversation."""
    return [str(message.content) for message in result["messages"]]


LOOKS = ([("look", {"city": "Rome"}), ("look", {"city": "Oslo"})], "Both are fine.")
TOLD = ["Look.", "", "Rome is fine", "Oslo is fine", "Both are fine."]


def test_a_run_is_recorded_and_replayed(client: Client) -> None:
    calls: list[str] = []
    model = ScriptedChat.of(*LOOKS)
    graph = agent(PawlDurability(client), "looks", model, looking(calls))
    first = graph.invoke({"messages": "Look."}, request_id="looks-1", labels={"of": "tests"})
    again = graph.invoke({"messages": "Look."}, request_id="looks-1")
    assert said(first) == said(again) == TOLD
    assert first["messages"][1].id == again["messages"][1].id
    assert (sorted(calls), len(model.asked)) == (["Oslo", "Rome"], 2)
    model_1, rome, oslo, model_2 = requested(client, "looks")
    assert sorted([rome.key, oslo.key]) == [f"{model_1.key}/0", f"{model_1.key}/1"]
    assert (model_1.key.split("#")[0], model_2.key.split("#")[0]) == (
        "1:chatbot/model",
        "3:chatbot/model",
    )
    info = run_of(client, "looks").info()
    assert (info.status, info.tool_calls, info.tokens) == ("COMPLETED", 2, 220)
    assert info.labels["of"] == "tests"


def test_the_request_names_the_node_and_refers_to_results(client: Client) -> None:
    graph = agent(PawlDurability(client), "names", ScriptedChat.of(*LOOKS), looking([]))
    graph.invoke({"messages": "Look."}, request_id="names-1")
    first, second = (step.model for step in requested(client, "names") if step.model is not None)
    assert isinstance(first.parameters, dict)
    assert first.parameters["node"] == "chatbot"
    assert second.previous_step
    assert all(message.result is not None for message in second.messages), second.messages


def test_outside_of_a_graph_all_is_as_before(client: Client) -> None:
    calls: list[str] = []
    durability = PawlDurability(client)
    model, look = durability.durable(ScriptedChat.of("Fine.")), durability.durable(looking(calls))
    assert model.invoke("Hi.").content == "Fine."
    assert [part.content for part in model.stream("Hi.")][:1] == ["Fine."]
    assert look.invoke({"city": "Rome"}) == "Rome is fine"
    graph = agent(durability, "plain", ScriptedChat.of("Fine."))
    assert said(graph.graph.invoke({"messages": "Hi."})) == ["Hi.", "Fine."]
    assert durability.durable(graph) is graph
    assert durability.durable(look) is look
    assert list(client.list_runs(RunFilter(pack="plain"))) == []


async def test_an_async_client(sidecar: Sidecar) -> None:
    calls: list[str] = []
    model = ScriptedChat.of(*LOOKS)
    async with AsyncClient(address=sidecar.address) as client:
        graph = agent(PawlDurability(client), "soon", model, looking(calls))
        for _ in range(2):
            result = await graph.ainvoke({"messages": "Look."}, request_id="soon-1")
            assert said(result) == TOLD
        with pytest.raises(RuntimeError, match="ainvoke"):
            graph.invoke({"messages": "Look."}, request_id="soon-2")
    assert (sorted(calls), len(model.asked)) == (["Oslo", "Rome"], 2)


async def test_more_runs_at_once_than_threads(client: Client) -> None:
    pool = ThreadPoolExecutor(2)
    asyncio.get_running_loop().set_default_executor(pool)
    durability = PawlDurability(client)
    look = durability.durable(looking([]))
    # A blocking node needs a thread of the loop's executor.
    graph = one_node(durability, "many", lambda state: {"said": [look.invoke({"city": "Rome"})]})
    told = await asyncio.gather(
        *(graph.ainvoke({"said": []}, request_id=f"many-{number}") for number in range(8))
    )
    assert [one["said"] for one in told] == [["Rome is fine"]] * 8


async def test_a_blocking_client_in_a_coroutine(client: Client) -> None:
    calls: list[str] = []
    model = ScriptedChat.of(*LOOKS)
    graph = agent(PawlDurability(client), "mixed", model, looking(calls))
    for _ in range(2):
        result = await graph.ainvoke({"messages": "Look."}, request_id="mixed-1")
        assert said(result) == TOLD
    # What ainvoke has recorded is found by invoke.
    assert said(await asyncio.to_thread(graph.invoke, {"messages": "Look."}, request_id="mixed-1"))
    assert (sorted(calls), len(model.asked)) == (["Oslo", "Rome"], 2)


def test_a_stream(client: Client) -> None:
    model = ScriptedChat.of(*LOOKS)
    graph = agent(PawlDurability(client), "streams", model, looking([]))

    def texts() -> list[str]:
        parts = graph.stream({"messages": "Look."}, request_id="streams-1", stream_mode="messages")
        return [str(part.content) for part, about in parts if about["langgraph_node"] == "chatbot"]

    assert [text for text in texts() if text] == ["Both", " are", " fine."]
    assert [text for text in texts() if text] == ["Both are fine."]
    assert len(model.asked) == 2
    assert run_of(client, "streams").info().status == "COMPLETED"


async def test_an_async_stream(client: Client) -> None:
    model = ScriptedChat.of(*LOOKS)
    graph = agent(PawlDurability(client), "astreams", model, looking([]))

    async def texts() -> list[str]:
        parts = graph.astream(
            {"messages": "Look."}, request_id="astreams-1", stream_mode="messages"
        )
        return [str(part.content) async for part, about in parts if isinstance(part, AIMessage)]

    assert [text for text in await texts() if text] == ["Both", " are", " fine."]
    assert [text for text in await texts() if text] == ["Both are fine."]
    assert len(model.asked) == 2


def test_a_stream_that_is_left_stays_open(client: Client) -> None:
    calls: list[str] = []
    model = ScriptedChat.of(*LOOKS)
    graph = agent(PawlDurability(client), "left", model, looking(calls))
    parts = graph.stream({"messages": "Look."}, request_id="left-1", stream_mode="updates")
    assert "chatbot" in next(parts)
    parts.close()
    assert not run_of(client, "left").info().status.terminal
    assert said(graph.invoke({"messages": "Look."}, request_id="left-1")) == TOLD
    assert (sorted(calls), len(model.asked)) == (["Oslo", "Rome"], 2)


async def test_a_cancelled_stream_stays_open(client: Client) -> None:
    reached, held = asyncio.Event(), asyncio.Event()

    class Holding(ScriptedChat):
        async def _agenerate(self, messages: Any, *rest: Any, **more: Any) -> Any:
            if len(messages) > 1 and not held.is_set():
                reached.set()
                await held.wait()
            return await super()._agenerate(messages, *rest, **more)

    calls: list[str] = []
    model = Holding.of(*LOOKS)
    graph = agent(PawlDurability(client), "cut", model, looking(calls))
    task = asyncio.create_task(graph.ainvoke({"messages": "Look."}, request_id="cut-1"))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.set()
    assert said(await graph.ainvoke({"messages": "Look."}, request_id="cut-1")) == TOLD
    assert (sorted(calls), len(model.asked)) == (["Oslo", "Rome"], 2)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_hundred_parallel_calls(client: Client, blocking: bool) -> None:
    done: list[int] = []

    @tool
    def count(number: int) -> int:
        """Counts."""
        done.append(number)
        return number

    name = f"hundred-{blocking}".lower()
    model = ScriptedChat.of([("count", {"number": n}) for n in range(100)], "Counted.")
    graph = agent(PawlDurability(client), name, model, count)
    for _ in range(2):
        given = {"messages": "Count."}
        if blocking:
            result = graph.invoke(given, request_id=name)
        else:
            result = asyncio.run(graph.ainvoke(given, request_id=name))
        told = [m.content for m in result["messages"] if isinstance(m, ToolMessage)]
        assert told == [str(n) for n in range(100)]
    assert sorted(done) == list(range(100))


def fanning(durability: PawlDurability, name: str, fails: Callable[[str], None]) -> DurableGraph:
    """A graph whose nodes ask the model at once, in another order each time."""
    model = durability.durable(ScriptedChat.of("unused"))

    class Echo(ScriptedChat):
        def _answer(self, messages: Any, options: Any) -> Any:
            text = str(messages[-1].content)
            fails(text)
            return 0, f"echo {text}"

    echo = durability.durable(Echo.of("unused"))
    assert model is not echo

    def split(state: Said) -> list[Send]:
        return [Send("one", {"said": [f"part {n}"]}) for n in range(12)]

    def one(state: Said) -> dict[str, list[str]]:
        both = [echo.invoke(f"{state['said'][0]} {place}").content for place in ("a", "b")]
        return {"said": [str(text) for text in both]}

    builder = StateGraph(Said)
    builder.add_node("one", one)
    builder.add_conditional_edges(START, split, ["one"])
    return durability.durable(builder.compile(name=name))


def test_parallel_nodes_keep_their_answers(client: Client) -> None:
    asked: list[str] = []
    broken = threading.Event()

    def fails(text: str) -> None:
        asked.append(text)
        if text == "part 7 b" and not broken.is_set():
            broken.set()
            raise MistakeError

    durability = PawlDurability(client)
    graph = fanning(durability, "fans", fails)
    with pytest.raises(MistakeError):
        graph.invoke({"said": []}, request_id="fans-1")
    expected = [f"echo part {n} {place}" for n in range(12) for place in ("a", "b")]
    for _ in range(2):
        assert graph.invoke({"said": []}, request_id="fans-1")["said"] == expected
    assert len(asked) == 25  # All but one were asked once.


def test_a_graph_in_a_graph(client: Client) -> None:
    calls: list[str] = []
    durability = PawlDurability(client)
    inner = agent(durability, "inner", ScriptedChat.of(*LOOKS), looking(calls))

    builder = StateGraph(MessagesState)
    # The first is LangGraph's own way; the second is a node that calls the durable graph.
    builder.add_node("first", inner.graph)
    builder.add_node("second", lambda state: inner.invoke({"messages": "Look."}))
    builder.add_node("third", lambda state: inner.invoke({"messages": "Look."}))
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_edge("second", "third")
    outer = durability.durable(builder.compile(name="outer-graph"))
    for _ in range(2):
        result = outer.invoke({"messages": "Look."}, request_id="outer-1")
        assert len(result["messages"]) == 15
    assert len(calls) == 6
    assert list(client.list_runs(RunFilter(pack="inner"))) == []
    info = run_of(client, "outer-graph").info()
    assert (info.status, info.tool_calls) == ("COMPLETED", 6)


@pytest.mark.parametrize("blocking", [True, False])
def test_calls_of_one_node_by_its_code(client: Client, blocking: bool) -> None:
    asked: list[str] = []

    class Echo(ScriptedChat):
        def _answer(self, messages: Any, options: Any) -> Any:
            asked.append(str(messages[-1].content))
            if len(asked) == 3:
                raise MistakeError
            return 0, f"answer {len(asked)}"

    durability = PawlDurability(client)
    echo, look = durability.durable(Echo.of("")), durability.durable(looking([]))
    clock = iter(range(100))

    def node(state: Said) -> dict[str, list[str]]:
        # A prompt that is another one in each execution, and two calls with the same content.
        first = echo.invoke(f"It is {next(clock)} o'clock.").content
        second = [look.invoke({"city": "Rome"}) for _ in range(2)]
        return {"said": [str(first), *second, str(echo.invoke("And now?").content)]}

    async def anode(state: Said) -> dict[str, list[str]]:
        first = (await echo.ainvoke(f"It is {next(clock)} o'clock.")).content
        second = [await look.ainvoke({"city": "Rome"}) for _ in range(2)]
        return {"said": [str(first), *second, str((await echo.ainvoke("And now?")).content)]}

    def after(state: Said) -> dict[str, list[str]]:
        return {"said": [str(echo.invoke("And then?").content)]}

    builder = StateGraph(Said)
    builder.add_node("node", RunnableLambda(node, afunc=anode))
    builder.add_node(after)
    builder.add_edge(START, "node")
    builder.add_edge("node", "after")
    name = f"coded-{blocking}".lower()
    graph = durability.durable(builder.compile(name=name))

    def run() -> list[str]:
        if blocking:
            return list(graph.invoke({"said": []}, request_id=name)["said"])
        return list(asyncio.run(graph.ainvoke({"said": []}, request_id=name))["said"])

    with pytest.raises(MistakeError):
        run()
    rome = "Rome is fine"
    expected = ["answer 1", rome, rome, "answer 2", "answer 4"]
    for _ in range(2):
        assert run() == expected
    assert len(asked) == 4
    assert run_of(client, name).info().tool_calls == 2


def one_node(durability: PawlDurability, name: str, node: Any, **options: Any) -> DurableGraph:
    """A graph with one node."""
    builder = StateGraph(Said)
    builder.add_node("node", node, **options)
    builder.add_edge(START, "node")
    return durability.durable(builder.compile(name=name))


def test_a_tool_call_with_other_arguments_gets_no_record_of_another(client: Client) -> None:
    refunded: list[int] = []
    orders = [17, 18]

    @tool
    def refund(order: int) -> str:
        """Refunds."""
        refunded.append(order)
        return f"refunded {order}"

    durability = PawlDurability(client)
    refunding = durability.durable(refund)

    def node(state: Said) -> dict[str, list[str]]:
        said: list[str] = []
        for order in list(orders):
            said.append(refunding.invoke({"order": order}))
            if orders == [17, 18] and refunded == [17]:
                raise MistakeError
        return {"said": said}

    graph = one_node(durability, "open-orders", node)
    with pytest.raises(MistakeError):
        graph.invoke({"said": []}, request_id="open-orders")
    orders[:] = [18]
    with pytest.raises(RunChangedError, match=r"'refund' with .*18.*called it with .*17"):
        graph.invoke({"said": []}, request_id="open-orders")
    assert refunded == [17]
    orders[:] = [17, 18, 19]
    expected = ["refunded 17", "refunded 18", "refunded 19"]
    assert graph.invoke({"said": []}, request_id="open-orders")["said"] == expected
    assert refunded == [17, 18, 19]


def test_a_chain_in_a_tool_keeps_the_numbers_of_the_task_around_it(client: Client) -> None:
    asked: list[str] = []

    class Echo(ScriptedChat):
        def _answer(self, messages: Any, options: Any) -> Any:
            asked.append(str(messages[-1].content))
            return 0, f"answer {len(asked)}"

    @tool
    def look(city: str) -> str:
        """Looks by a chain."""
        chain: Any = RunnableLambda(lambda city: f"{city} is fine")
        return str(chain.invoke(city))

    durability = PawlDurability(client)
    echo, looked = durability.durable(Echo.of("")), durability.durable(look)

    def node(state: Said) -> dict[str, list[str]]:
        first = str(echo.invoke("And now?").content)
        city = looked.invoke({"city": "Rome"})
        return {"said": [first, city, str(echo.invoke("And now?").content)]}

    graph = one_node(durability, "chained", node)
    for _ in range(2):
        told = graph.invoke({"said": []}, request_id="chained-1")["said"]
        assert told == ["answer 1", "Rome is fine", "answer 2"]
    assert len(asked) == 2


async def test_calls_at_once_take_no_record_of_another(client: Client) -> None:
    calls: list[str] = []
    cities = ["Rome"]
    durability = PawlDurability(client)
    look = durability.durable(looking(calls))

    async def node(state: Said) -> dict[str, list[str]]:
        both = await asyncio.gather(*(look.ainvoke({"city": city}) for city in cities))
        if len(cities) == 1:
            raise MistakeError
        return {"said": list(both)}

    graph = one_node(durability, "gathered", node)
    with pytest.raises(MistakeError):
        await graph.ainvoke({"said": []}, request_id="gathered-1")
    cities[:] = ["Oslo", "Rome"]
    for _ in range(2):
        told = (await graph.ainvoke({"said": []}, request_id="gathered-1"))["said"]
        assert told == ["Oslo is fine", "Rome is fine"]
    assert calls == ["Rome", "Oslo"]


def test_a_node_that_is_retried_repeats_no_recorded_call(client: Client) -> None:
    asked: list[str] = []
    failures = [ConnectionResetError("reset"), None]

    @tool
    def fails() -> str:
        """Fails once."""
        if error := failures.pop(0):
            raise error
        return "done"

    durability = PawlDurability(client)
    model, failing = durability.durable(ScriptedChat.of("Hi.")), durability.durable(fails)

    def node(state: Said) -> dict[str, list[str]]:
        words = str(model.invoke("Hi?").content)
        asked.append(words)
        return {"said": [words, failing.invoke({})]}

    builder = StateGraph(Said)
    policy = RetryPolicy(initial_interval=0.0, retry_on=ConnectionError)
    builder.add_node("node", node, retry_policy=policy)
    builder.add_edge(START, "node")
    graph = durability.durable(builder.compile(name="retried"))
    for _ in range(2):
        assert graph.invoke({"said": []}, request_id="retried-1")["said"] == ["Hi.", "done"]
    assert (len(asked), failures) == (4, [])
    steps = [step for step in requested(client, "retried") if step.model is None]
    assert [step.key[-2:] == "~2" for step in steps] == [False, True]


def test_a_node_that_is_retried_repeats_no_call_with_another_prompt(client: Client) -> None:
    durability = PawlDurability(client)
    script = ScriptedChat.of("Hi.")
    model = durability.durable(script)
    attempts: list[int] = []

    def node(state: Said) -> dict[str, list[str]]:
        attempts.append(len(attempts))
        words = str(model.invoke(f"It is {len(attempts)} o'clock.").content)
        if len(attempts) == 1:
            raise ConnectionResetError
        return {"said": [words]}

    policy = RetryPolicy(initial_interval=0.0, retry_on=ConnectionError)
    graph = one_node(durability, "again", node, retry_policy=policy)
    for _ in range(2):
        assert graph.invoke({"said": []}, request_id="again-1")["said"] == ["Hi."]
    assert len(script.asked) == 1


# People


@pytest.mark.parametrize("saver", ["pawl", "memory"])
def test_a_person_answers_an_interrupt(client: Client, saver: str) -> None:
    paid: list[Any] = []

    @tool
    def pay(order: str) -> str:
        """Pays."""
        paid.append("asked")
        amount = interrupt("How much?")
        paid.append(amount)
        return f"paid {amount}"

    name = f"pays-{saver}"
    kept = PawlSaver(client, name=name) if saver == "pawl" else InMemorySaver()
    model = ScriptedChat.of([("look", {"city": "Rome"}), ("pay", {"order": "17"})], "Done.")
    looked: list[str] = []
    graph = agent(PawlDurability(client), name, model, looking(looked), pay, saver=kept)
    for _ in range(2):
        waiting = graph.invoke({"messages": "Pay."}, request_id=name)
        assert waiting["__interrupt__"][0].value == "How much?"
        assert not run_of(client, name).info().status.terminal
    config: Any = {"configurable": {"thread_id": name}}
    with pytest.raises(ValueError, match=f"waits in the run of '{name}'"):
        graph.invoke(Command(resume=1), config, request_id="another")
    told = ["Pay.", "", "Rome is fine", "paid 40", "Done."]
    assert said(graph.invoke(Command(resume=40), request_id=name)) == told
    assert said(graph.invoke({"messages": "Pay."}, request_id=name)) == told
    assert (looked, paid[-2:], len(model.asked)) == (["Rome"], ["asked", 40], 2)
    assert run_of(client, name).info().status == "COMPLETED"
    # The thread goes on in another run; the first one is still found.
    more = graph.invoke({"messages": "More."}, config, request_id=f"{name}-2")
    assert len(more["messages"]) == 7
    assert said(graph.invoke({"messages": "Pay."}, request_id=name)) == told


def test_a_thread_continues_at_its_checkpoint(client: Client) -> None:
    entered: list[str] = []
    broken = [MistakeError()]
    durability = PawlDurability(client)
    script = ScriptedChat.of("Hi.")
    model = durability.durable(script)

    def first(state: Said) -> dict[str, list[str]]:
        entered.append("first")
        return {"said": [str(model.invoke("Hi?").content)]}

    def second(state: Said) -> dict[str, list[str]]:
        entered.append("second")
        words = str(model.invoke("Hi?").content)
        if broken:
            raise broken.pop()
        return {"said": [words]}

    builder = StateGraph(Said)
    builder.add_node(first)
    builder.add_node(second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    saver = PawlSaver(client, name="kept")
    graph = durability.durable(builder.compile(name="kept", checkpointer=saver))
    with pytest.raises(MistakeError):
        graph.invoke({"said": []}, request_id="kept-1")
    for _ in range(2):
        assert graph.invoke({"said": []}, request_id="kept-1")["said"] == ["Hi.", "Hi."]
    assert entered == ["first", "second", "second"]
    assert len(script.asked) == 2


def test_a_graph_that_stops_before_a_node(client: Client) -> None:
    model, calls = ScriptedChat.of([("look", {"city": "Rome"})], "Fine."), list[str]()
    graph = agent(PawlDurability(client), "stops", model, looking(calls), saver=InMemorySaver())
    for _ in range(2):
        options: Any = {"request_id": "stops-1", "interrupt_before": ["tools"]}
        assert said(graph.invoke({"messages": "Look."}, **options)) == ["Look.", ""]
    assert calls == []
    told = ["Look.", "", "Rome is fine", "Fine."]
    assert said(graph.invoke(None, request_id="stops-1")) == told
    assert said(graph.invoke({"messages": "Look."}, request_id="stops-1")) == told
    assert run_of(client, "stops").info().status == "COMPLETED"
    with pytest.raises(NotDurableError, match="interrupt_after"):
        graph.invoke({"messages": "Look."}, request_id="stops-2", interrupt_after="*")


def test_a_person_changes_the_state(client: Client) -> None:
    model, calls = ScriptedChat.of([("look", {"city": "Rome"})], "Fine."), list[str]()
    saver = InMemorySaver()
    graph = agent(PawlDurability(client), "edited", model, looking(calls), saver=saver)
    options: Any = {"request_id": "edited-1", "interrupt_before": ["tools"]}
    asked = graph.invoke({"messages": "Look."}, **options)["messages"][-1]
    asked.tool_calls[0]["args"] = {"city": "Oslo"}
    config: Any = {"configurable": {"thread_id": "edited-1"}}
    graph.graph.update_state(config, {"messages": [asked]})
    told = ["Look.", "", "Oslo is fine", "Fine."]
    assert said(graph.invoke(None, request_id="edited-1")) == told
    assert said(graph.invoke({"messages": "Look."}, request_id="edited-1")) == told
    assert (calls, len(model.asked)) == (["Oslo"], 2)


def test_a_failed_run_leaves_its_thread(client: Client) -> None:
    @tool
    def fails() -> str:
        """Fails once."""
        if broken:
            raise broken.pop()
        return "done"

    broken: list[Exception] = [ToolException("no such order")]
    model = ScriptedChat.of([("fails", {})], "Fine.")
    saver = InMemorySaver()
    graph = agent(PawlDurability(client), "leaves", model, fails, saver=saver)
    config: Any = {"configurable": {"thread_id": "leaves"}}
    with pytest.raises(ToolException, match="no such order"):
        graph.invoke({"messages": "Go."}, config, request_id="leaves-1")
    with pytest.raises(DurableRunError, match="no such order"):
        graph.invoke({"messages": "Go."}, config, request_id="leaves-1")
    told = said(graph.invoke(None, config, request_id="leaves-2"))
    assert (told, len(model.asked)) == (["Go.", "", "done", "Fine."], 2)


def refunding(
    client: Client, name: str, model: ScriptedChat, limits: Any = None
) -> tuple[Callable[[], Any], list[float]]:
    """A run of a graph with a tool that refunds, and what it refunded."""
    refunded: list[float] = []

    @tool
    def refund(order: str, amount: float) -> str:
        """Refunds an order."""
        refunded.append(amount)
        return f"refunded {amount:.2f}"

    graph = agent(PawlDurability(client, bounds=limits), name, model, refund)
    return lambda: graph.invoke({"messages": "Refund."}, request_id=name), refunded


@pytest.mark.parametrize("decision", ["APPROVE", "EDIT", "DENY"])
def test_a_call_waits_for_a_person(client: Client, decision: str) -> None:
    name = f"refunds-{decision}".lower()
    model = ScriptedChat.of([("refund", {"order": "17", "amount": 150})], "Settled.")
    run, refunded = refunding(
        client, name, model, bounds(approve={"refund": "payload.amount > 100.0"})
    )
    what: dict[str, Any] = {"reason": "because"}
    if decision == "EDIT":
        what["payload"] = {"order": "17", "amount": 50}
    person = deciding(client, decision, **what)
    told = said(run())
    person.join()
    assert refunded == {"APPROVE": [150], "EDIT": [50], "DENY": []}[decision]
    answer = {"APPROVE": "refunded 150", "EDIT": "refunded 50", "DENY": "because"}[decision]
    assert answer in told[2]
    assert said(run()) == told
    assert len(model.asked) == 2


def test_steering_reaches_the_model(client: Client) -> None:
    @tool
    def ask() -> str:
        """Is steered meanwhile."""
        client.attach(current_call().run_id).steer("Be quick.")
        return "asked"

    model = ScriptedChat.of([("ask", {})], [("look", {"city": "Rome"})], "Done.")
    graph = agent(PawlDurability(client), "steered", model, ask, looking([]))
    for _ in range(2):
        assert said(graph.invoke({"messages": "Go."}, request_id="steered-1"))[-1] == "Done."
    words = [[str(message.content) for message in asked] for asked in model.asked]
    assert words == [
        ["Go."],
        ["Go.", "", "asked", "Be quick."],
        ["Go.", "", "asked", "Be quick.", "", "Rome is fine"],
    ]


def test_steering_reaches_each_conversation(client: Client) -> None:
    @tool
    def ask() -> str:
        """Is steered meanwhile."""
        client.attach(current_call().run_id).steer("Be quick.")
        return "asked"

    # The message is for the requests before the first answer, so no answer comes before both.
    both_asked = threading.Barrier(2)

    class Patient(ScriptedChat):
        def asked_for(self, answers: int) -> None:
            both_asked.wait(60)

    durability = PawlDurability(client)
    script = Patient.of("Hi.")
    model, asking = durability.durable(script), durability.durable(ask)
    builder = StateGraph(Said)
    builder.add_node("first", lambda state: {"said": [asking.invoke({})]})
    for name in ("one", "two"):
        builder.add_node(name, lambda state, name=name: {"said": [model.invoke(name).content]})
        builder.add_edge("first", name)
    builder.add_edge(START, "first")
    graph = durability.durable(builder.compile(name="both"))
    for _ in range(2):
        assert graph.invoke({"said": []}, request_id="both-1")["said"] == ["asked", "Hi.", "Hi."]
    asked = sorted([str(message.content) for message in one] for one in script.asked)
    assert asked == [["one", "Be quick."], ["two", "Be quick."]]


def test_an_operator_cancels_the_run(client: Client) -> None:
    @tool
    def ask() -> str:
        """Is cancelled meanwhile."""
        client.attach(current_call().run_id).cancel("enough")
        return "asked"

    model = ScriptedChat.of([("ask", {})], "Done.")
    graph = agent(PawlDurability(client), "ended", model, ask, handle_tool_errors=True)
    for _ in range(2):
        with pytest.raises(DurableRunError) as caught:
            graph.invoke({"messages": "Go."}, request_id="ended-1")
        assert caught.value.status == "CANCELLED"
    assert len(model.asked) == 1


# Limits and errors


def test_tool_calls_are_bounded(client: Client) -> None:
    model = ScriptedChat.of([("refund", {"order": "17", "amount": 1})])
    run, refunded = refunding(client, "bounded", model, bounds(max_tool_calls=2))
    for _ in range(2):
        with pytest.raises(DurableRunError) as caught:
            run()
        assert (caught.value.status, caught.value.reason) == ("BUDGET_EXHAUSTED", "max_tool_calls")
    assert refunded == [1, 1]


def test_money_is_bounded(client: Client) -> None:
    limits = bounds(max_cost_usd=1.0, prices={"scripted": {"input": 1000, "output": 1000}})
    model = ScriptedChat.of([("refund", {"order": "17", "amount": 1})])
    run, _ = refunding(client, "money", model, limits)
    with pytest.raises(DurableRunError) as caught:
        run()
    assert (caught.value.status, caught.value.reason) == ("BUDGET_EXHAUSTED", "max_cost_usd")


def test_langgraph_s_limit_ends_the_run(client: Client) -> None:
    model = ScriptedChat.of([("look", {"city": "Rome"})])
    graph = agent(PawlDurability(client), "turns", model, looking([]))
    with pytest.raises(GraphRecursionError):
        graph.invoke({"messages": "Go."}, {"recursion_limit": 4}, request_id="turns")
    with pytest.raises(DurableRunError, match="GraphRecursionError"):
        graph.invoke({"messages": "Go."}, {"recursion_limit": 4}, request_id="turns")


class RefusedError(Exception):
    status_code = 400
    body = {"message": "no such model"}  # noqa: RUF012


def test_a_model_that_fails(client: Client) -> None:
    model = ScriptedChat.of(RefusedError("no such model"))
    run, _ = refunding(client, "failing", model)
    with pytest.raises(StepFailedError, match="no such model") as caught:
        run()
    assert isinstance(caught.value.__cause__, RefusedError)
    assert len(model.asked) == 1
    with pytest.raises(DurableRunError, match="no such model"):
        run()


def test_a_model_with_a_fallback_keeps_its_failure(client: Client) -> None:
    refunded: list[int] = []
    calls = [("refund", {"order": 17})]

    @tool
    def refund(order: int) -> str:
        """Refunds."""
        refunded.append(order)
        return "refunded"

    class Primary(ScriptedChat):
        def asked_for(self, answers: int) -> None:
            if len(self.asked) == 1:
                raise RefusedError("no such model")

    class Fallback(ScriptedChat):
        def asked_for(self, answers: int) -> None:
            if answers == 1 and len(self.asked) == 2:
                raise MistakeError

    durability = PawlDurability(client)
    tools = [durability.durable(refund)]
    primary = Primary.of(calls, "The primary is done.")
    first, second = (
        durability.durable(one.bind_tools(tools))
        for one in (primary, Fallback.of(calls, "The fallback is done."))
    )
    model = first.with_fallbacks([second], exceptions_to_handle=(StepFailedError,))

    def chatbot(state: MessagesState) -> dict[str, Any]:
        asked = model if len(state["messages"]) == 1 else second
        return {"messages": [asked.invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node(chatbot)
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "chatbot")
    builder.add_conditional_edges("chatbot", tools_condition)
    builder.add_edge("tools", "chatbot")
    graph = durability.durable(builder.compile(name="falls"))
    with pytest.raises(MistakeError):
        graph.invoke({"messages": "Go."}, request_id="falls-1")
    told = ["Go.", "", "refunded", "The fallback is done."]
    for _ in range(2):
        assert said(graph.invoke({"messages": "Go."}, request_id="falls-1")) == told
    assert (refunded, len(primary.asked)) == ([17], 1)


def test_a_model_that_fails_for_a_moment(client: Client) -> None:
    class Model(ScriptedChat):
        def asked_for(self, answers: int) -> None:
            if len(self.asked) == 1:
                raise ConnectionResetError("reset")

    model = Model.of("Here.")
    run, _ = refunding(client, "moment", model)
    assert said(run()) == ["Refund.", "Here."]
    assert len(model.asked) == 2


def test_a_mistake_leaves_the_run_open(client: Client) -> None:
    class Model(ScriptedChat):
        def asked_for(self, answers: int) -> None:
            if answers == 1 and len(self.asked) == 2:
                raise MistakeError

    model = Model.of([("refund", {"order": "17", "amount": 5})], "Settled.")
    run, refunded = refunding(client, "mistaken", model)
    with pytest.raises(MistakeError):
        run()
    assert said(run())[-1] == "Settled."
    assert (refunded, len(model.asked)) == ([5], 3)


def test_a_call_is_made_again_after_each_execution_that_was_lost(client: Client) -> None:
    class Model(ScriptedChat):
        def asked_for(self, answers: int) -> None:
            if len(self.asked) <= 3:
                raise MistakeError

    model = Model.of("Here.")
    run, _ = refunding(client, "lost", model)
    for _ in range(3):
        with pytest.raises(MistakeError):
            run()
    assert said(run()) == ["Refund.", "Here."]
    assert len(model.asked) == 4


@pytest.mark.parametrize("raised", ["mistake", "for the failure"])
def test_a_mistake_after_a_handled_failure(client: Client, raised: str) -> None:
    mistakes = [MistakeError()]

    @tool
    def fails() -> str:
        """Fails."""
        raise ToolException("no such order")

    durability = PawlDurability(client)
    failing = durability.durable(fails)

    def node(state: Said) -> dict[str, list[str]]:
        try:
            failing.invoke({})
        except ToolException as error:
            if mistakes and raised != "mistake":
                raise mistakes.pop() from error
        if mistakes:
            raise mistakes.pop()
        return {"said": ["handled"]}

    name = f"handles-{raised}".replace(" ", "-")
    graph = one_node(durability, name, node)
    with pytest.raises(MistakeError):
        graph.invoke({"said": []}, request_id=name)
    if raised == "mistake":
        assert graph.invoke({"said": []}, request_id=name)["said"] == ["handled"]
    else:
        with pytest.raises(DurableRunError, match="MistakeError"):
            graph.invoke({"said": []}, request_id=name)


@pytest.mark.parametrize("handled", [True, False])
def test_a_tool_s_own_error(client: Client, handled: bool) -> None:
    @tool
    def fails(kind: str) -> str:
        """Fails."""
        raise ToolException("no such order") if kind == "known" else KeyError(kind)

    name = f"raising-{handled}".lower()
    model = ScriptedChat.of([("fails", {"kind": "known"})], "Sorry.")
    graph = agent(PawlDurability(client), name, model, fails, handle_tool_errors=handled)
    if handled:
        told = said(graph.invoke({"messages": "Go."}, request_id=name))
        assert "no such order" in told[2]
        assert said(graph.invoke({"messages": "Go."}, request_id=name)) == told
        return
    with pytest.raises(ToolException, match="no such order"):
        graph.invoke({"messages": "Go."}, request_id=name)
    with pytest.raises(DurableRunError, match="no such order"):
        graph.invoke({"messages": "Go."}, request_id=name)


def test_arguments_that_do_not_fit(client: Client) -> None:
    model = ScriptedChat.of([("refund", {"order": {"n": 1}})], "Sorry.")
    run, refunded = refunding(client, "misfit", model)
    assert "amount" in said(run())[2]
    assert refunded == []
    # What pydantic converts is recorded as the tool gets it.
    model = ScriptedChat.of([("refund", {"order": "17", "amount": "5"})], "Fine.")
    run, refunded = refunding(client, "converted", model)
    run()
    assert refunded == [5.0]
    assert requested(client, "converted")[1].payload == {"order": "17", "amount": 5.0}


class City(BaseModel):
    city: str


def test_a_tool_with_a_schema_and_a_runtime(client: Client) -> None:
    @tool(args_schema=City)
    def look(city: str, runtime: ToolRuntime) -> str:
        """Looks."""
        return f"{city} after {len(runtime.state['messages'])}"

    model = ScriptedChat.of([("look", {"city": "Rome"})], "Fine.")
    graph = agent(PawlDurability(client), "runtimes", model, look)
    for _ in range(2):
        told = said(graph.invoke({"messages": "Go."}, request_id="runtimes-1"))
        assert told == ["Go.", "", "Rome after 2", "Fine."]
    assert requested(client, "runtimes")[1].payload == {"city": "Rome"}


def test_a_tool_that_the_operator_does_not_allow(client: Client) -> None:
    @tool
    def forbidden() -> str:
        """Is not allowed."""
        return ""

    model = ScriptedChat.of([("forbidden", {})])
    graph = agent(PawlDurability(client), "forbidden", model, forbidden, handle_tool_errors=True)
    with pytest.raises(StepRefusedError, match="TOOL_NOT_ALLOWED"):
        graph.invoke({"messages": "Go."}, request_id="forbidden")


# What a program may give


class Order(BaseModel):
    number: str
    lines: list[int] = []


def test_results_that_are_no_plain_values(client: Client) -> None:
    made: list[str] = []

    @tool
    def pick(order: Order, secret: Annotated[Any, InjectedToolArg]) -> Any:
        """Picks."""
        made.append(order.number)
        update = {"messages": [ToolMessage("picked", tool_call_id=current_call().key)]}
        return Order(number=order.number, lines=[1]) if secret is None else Command(update=update)

    durability = PawlDurability(client)
    picking = durability.durable(pick)
    found: list[Any] = []

    def node(state: Said) -> dict[str, list[str]]:
        lock = threading.Lock()
        found.append(picking.invoke({"order": Order(number="17"), "secret": None}))
        found.append(picking.invoke({"order": {"number": "18"}, "secret": lock}))
        return {"said": []}

    builder = StateGraph(Said)
    builder.add_node(node)
    builder.add_edge(START, "node")
    graph = durability.durable(builder.compile(name="picks"))
    for _ in range(2):
        graph.invoke({"said": []}, request_id="picks-1")
    assert found[0] == found[2] == Order(number="17", lines=[1])
    assert isinstance(found[1], Command)
    update: Any = found[1].update
    assert update["messages"][0].content == "picked"
    assert found[1].update == found[3].update
    assert made == ["17", "18"]
    first, second = requested(client, "picks")
    assert second.payload == {"order": {"number": "18"}}
    assert first.payload == {"order": {"number": "17", "lines": []}}


def test_what_is_long_or_has_no_form(client: Client) -> None:
    class Kept:
        pass

    class Wide(Said):
        kept: Any

    durability = PawlDurability(client)
    builder = StateGraph(Wide)
    builder.add_node("node", lambda state: {"said": ["x" * 3_000_000], "kept": Kept()})
    builder.add_edge(START, "node")
    graph = durability.durable(builder.compile(name="wide"))
    for _ in range(2):
        given = {"said": ["y" * 3_000_000, b"\xff"], "kept": [float("nan"), Kept()]}
        result = graph.invoke(given, request_id="wide-1")
        assert [len(one) for one in result["said"]] == [3_000_000, 1, 3_000_000]
        assert isinstance(result["kept"], Kept)
    assert run_of(client, "wide").info().status == "COMPLETED"
    with pytest.raises(IdReusedError):
        graph.invoke({"said": ["z" * 3_000_000], "kept": None}, request_id="wide-1")


def test_arguments_without_a_form(client: Client) -> None:
    called: list[Any] = []

    @tool
    def look(city: Any) -> str:
        """Looks."""
        called.append(city)
        return ""

    durability = PawlDurability(client)
    looked = durability.durable(look)

    def node(state: Said) -> dict[str, list[str]]:
        with socket.socket() as connection:
            return {"said": [looked.invoke({"city": connection})]}

    builder = StateGraph(Said)
    builder.add_node(node)
    builder.add_edge(START, "node")
    graph = durability.durable(builder.compile(name="formless"))
    with pytest.raises(NotSerializableError, match="arguments have no JSON form"):
        graph.invoke({"said": []}, request_id="formless-1")
    assert called == []
    assert not run_of(client, "formless").info().status.terminal


def test_a_result_without_a_form(client: Client) -> None:
    kept = socket.socket()  # A tool may hold what has no form: it stays in the program.

    @tool
    def look() -> Any:
        """Returns what has no form."""
        return kept

    durability = PawlDurability(client)
    looked = durability.durable(look)
    builder = StateGraph(Said)
    builder.add_node("node", lambda state: {"said": [str(looked.invoke({}))]})
    builder.add_edge(START, "node")
    graph = durability.durable(builder.compile(name="socket"))
    with kept, pytest.raises(NotSerializableError, match="socket"):
        graph.invoke({"said": []}, request_id="socket-1")
    assert run_of(client, "socket").info().status == "ESCALATED"


def test_calls_that_are_not_durable_are_named_once(client: Client) -> None:
    durability = PawlDurability(client)
    model, look, kept = (
        ScriptedChat.of("Hi."),
        looking([]),
        durability.durable(ScriptedChat.of("Hi.")),
    )

    def node(state: Said) -> dict[str, list[str]]:
        for _ in range(2):
            model.invoke("Hi?")
            look.invoke({"city": "Rome"})
            kept.invoke("Hi?")
        return {"said": []}

    builder = StateGraph(Said)
    builder.add_node(node)
    builder.add_edge(START, "node")
    graph = durability.durable(builder.compile(name="bare"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph.invoke({"said": []}, request_id="bare-1")
    words = [str(one.message) for one in caught if one.category is NotDurableWarning]
    assert len(words) == 2, words
    assert "node 'node' calls the model 'ScriptedChat'" in words[0]
    assert "node 'node' calls the tool 'look'" in words[1]


def test_what_cannot_be_durable_is_named(client: Client) -> None:
    durability = PawlDurability(client)
    with pytest.raises(NotDurableError, match="function cannot be durable"):
        durability.durable(lambda state: state)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="request_id"):
        agent(durability, "empty", ScriptedChat.of("")).invoke({"messages": "Hi."})

    late = looking([])
    holder: list[BaseTool] = []
    builder = StateGraph(Said)
    builder.add_node("node", lambda state: holder[0].invoke({"city": "Rome"}))
    builder.add_edge(START, "node")
    graph = durability.durable(builder.compile(name="late"))
    holder.append(PawlDurability(client).durable(late))
    with pytest.raises(NotDurableError, match="'look' is not in the pack"):
        graph.invoke({"said": []}, request_id="late-1")


async def test_a_coroutine_that_would_block_is_named(client: Client) -> None:
    durability = PawlDurability(client)
    model = durability.durable(ScriptedChat.of("Hi."))

    async def node(state: Said) -> dict[str, list[str]]:
        return {"said": [str(model.invoke("Hi?").content)]}

    builder = StateGraph(Said)
    builder.add_node(node)
    builder.add_edge(START, "node")
    graph = durability.durable(builder.compile(name="blocks"))
    with pytest.raises(NotDurableError, match="await ainvoke"):
        await graph.ainvoke({"said": []}, request_id="blocks-1")


def test_names_are_known_once(client: Client) -> None:
    @tool("look")
    def other(country: str) -> str:
        """Looks."""
        return country

    durability = PawlDurability(client)
    one = agent(durability, "same", ScriptedChat.of("Fine."), looking([]))
    one.invoke({"messages": "Go."}, request_id="same-1")
    with pytest.raises(DuplicateToolError, match="look"):
        durability.durable(other)
    two = agent(PawlDurability(client), "same", ScriptedChat.of("Fine."), other)
    with pytest.raises(DuplicateAgentError, match="same"):
        two.invoke({"messages": "Go."}, request_id="same-2")


def test_a_changed_tool_is_named(sidecar: Sidecar) -> None:
    @tool("look")
    def other(country: str) -> str:
        """Looks."""
        return country

    def run(fails: bool, *, changed: bool) -> Any:
        class Model(ScriptedChat):
            def asked_for(self, answers: int) -> None:
                if answers and fails:
                    raise MistakeError

        model = Model.of([("look", {"city": "Rome"})], "Fine.")
        # A client of its own is what another process has.
        with sidecar.client() as client:
            used = other if changed else looking([])
            graph = agent(PawlDurability(client), "changing", model, used)
            return graph.invoke({"messages": "Go."}, request_id="changing")

    with pytest.raises(MistakeError):
        run(True, changed=False)
    with pytest.raises(RunChangedError) as caught:
        run(False, changed=True)
    assert caught.value.tools == ("look",)
    # Another model is no other program: what is recorded stays as it is.
    assert said(run(False, changed=False))[-1] == "Fine."


def test_changed_code_of_a_tool_is_named(sidecar: Sidecar) -> None:
    called: list[str] = []

    @tool("look")
    def other(city: str) -> str:
        """Looks."""
        called.append(city)
        return f"{city} is better"

    def run(fails: bool, used: BaseTool) -> Any:
        class Model(ScriptedChat):
            def asked_for(self, answers: int) -> None:
                if answers and fails:
                    raise MistakeError

        with sidecar.client() as client:
            model = Model.of([("look", {"city": "Rome"})], "Fine.")
            graph = agent(PawlDurability(client), "recoded", model, used)
            return graph.invoke({"messages": "Go."}, request_id="recoded")

    with pytest.raises(MistakeError):
        run(True, looking([]))
    with pytest.warns(ToolChangedWarning, match="other code of look"):
        told = said(run(False, other))
    # The recorded result is that of the code before.
    assert (told[2], called) == ("Rome is fine", [])


def test_a_run_inside_of_its_own_tool(client: Client) -> None:
    durability = PawlDurability(client)
    inner = agent(durability, "inside", ScriptedChat.of("Fine."))

    @tool
    def outer(own: bool) -> str:
        """Runs a graph."""
        key = "nested" if own else current_call().idempotency_key
        return said(inner.invoke({"messages": "Go."}, request_id=key))[-1]

    model = ScriptedChat.of([("outer", {"own": False})], "Done.")
    graph = agent(durability, "nests", model, outer)
    assert said(graph.invoke({"messages": "Go."}, request_id="nested-0"))[2] == "Fine."
    info = run_of(client, "inside").info()
    assert (info.status, info.tokens) == ("COMPLETED", 110)
    assert run_of(client, "nests").info().tokens == 220
    model = ScriptedChat.of([("outer", {"own": True})], "Done.")
    graph = agent(durability, "nests-2", model, outer)
    with pytest.raises(StepFailedError, match="NESTED_AGENT") as caught:
        graph.invoke({"messages": "Go."}, request_id="nested")
    assert isinstance(caught.value.__cause__, NestedAgentError)


def test_a_record_of_another_version(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run_module: Any = importlib.import_module("pawl_client._durable_langgraph_run")
    real = run_module.answer_of

    def other(*arguments: Any) -> Any:
        answer = real(*arguments)
        assert isinstance(answer.provider, dict)
        answer.provider["message"] = {"of": "the future"}
        return answer

    run, _ = refunding(client, "versions", ScriptedChat.of("Fine."))
    monkeypatch.setattr(run_module, "answer_of", other)
    with pytest.raises(LibraryVersionError, match="langchain-core"):
        run()


def test_the_pack_is_visible(client: Client) -> None:
    durability = PawlDurability(client, name="desk", bounds=bounds(approve={"look": "always"}))
    graph = agent(durability, "visible", ScriptedChat.of(""), looking([]))
    document = json.loads(durability.pack(graph).json())
    assert document["id"] == "desk"
    assert sorted(document["tools"]) == ["look"]
