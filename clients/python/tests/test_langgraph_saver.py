"""PawlSaver passes LangGraph's own conformance suite on a real sidecar, and its threads survive."""

from __future__ import annotations

import operator
import random
import string
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.report import CapabilityReport
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from pawl_client import ArtifactsSet, AsyncClient, Client, RunFilter, RunInfo, RunStatus
from pawl_client.langgraph import PawlSaver, ThreadEndedError, ThreadInUseError
from pawl_client.testing import Sidecar


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def conforms(report: CapabilityReport) -> None:
    assert set(report.results) == {capability.value for capability in Capability}
    for name, result in report.results.items():
        assert result.detected, name
        assert result.passed, (name, result.failures)


async def test_conformance_with_a_blocking_client(client: Client) -> None:
    @checkpointer_test(name="PawlSaver of a Client")
    async def savers() -> AsyncIterator[PawlSaver]:
        yield PawlSaver(client, name="conformance")

    conforms(await validate(savers))


async def test_conformance_with_an_asynchronous_client(sidecar: Sidecar) -> None:
    @checkpointer_test(name="PawlSaver of an AsyncClient")
    async def savers() -> AsyncIterator[PawlSaver]:
        async with AsyncClient(address=sidecar.address) as client:
            yield PawlSaver(client, name="conformance-soon")

    conforms(await validate(savers))


def graph_of(saver: PawlSaver) -> Any:
    def ask(state: State) -> dict[str, list[str]]:
        return {"said": ["asked"]}

    def wait(state: State) -> dict[str, list[str]]:
        return {"said": [str(interrupt("how much?"))]}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("wait", wait)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "wait")
    builder.add_edge("wait", END)
    return builder.compile(checkpointer=saver)


def test_an_interrupt_survives_the_program_and_the_sidecar() -> None:
    config = {"configurable": {"thread_id": "order-17"}}
    with Sidecar() as sidecar:
        with sidecar.client() as client:
            first = graph_of(PawlSaver(client)).invoke({"said": ["begun"]}, config)
            assert first["__interrupt__"][0].value == "how much?"
        sidecar.restart()
        with sidecar.client() as client:
            graph = graph_of(PawlSaver(client))
            assert graph.get_state(config).next == ("wait",)
            assert graph.invoke(Command(resume=40), config) == {"said": ["begun", "asked", "40"]}
            assert [state.metadata["step"] for state in graph.get_state_history(config)] == [
                2,
                1,
                0,
                -1,
            ]


def test_a_thread_belongs_to_one_graph(client: Client) -> None:
    config = {"configurable": {"thread_id": "shared"}}
    graph_of(PawlSaver(client, name="one")).invoke({"said": []}, config)
    with pytest.raises(ThreadInUseError, match="'shared' belongs to one-threads") as raised:
        graph_of(PawlSaver(client, name="other")).invoke({"said": []}, config)
    assert raised.value.reason == "THREAD_IN_USE"


def test_two_processes_write_one_thread(client: Client) -> None:
    one, other = PawlSaver(client, name="twice"), PawlSaver(client, name="twice")
    config = {"configurable": {"thread_id": "twice"}}
    graph_of(one).invoke({"said": ["one"]}, config)
    graph_of(other).invoke(Command(resume="other"), config)
    graph_of(one).invoke({"said": ["again"]}, config)
    found = graph_of(other).get_state(config).values["said"]
    assert found == ["one", "asked", "other", "again", "asked"]


def test_another_process_deletes_a_thread(client: Client) -> None:
    one, other = PawlSaver(client, name="deleted"), PawlSaver(client, name="deleted")
    config: Any = {"configurable": {"thread_id": "deleted"}}
    graph_of(one).invoke({"said": ["old"]}, config)
    other.delete_thread("deleted")
    assert one.get_tuple(config) is None
    assert graph_of(one).invoke({"said": ["new"]}, config)["said"] == ["new", "asked"]
    other.delete_thread("deleted")
    one.put_writes(
        {"configurable": {"thread_id": "deleted", "checkpoint_id": "1"}}, [("said", 1)], "task"
    )
    (info,) = threads(client, "deleted")
    assert info.status is RunStatus.WAITING
    one.delete_thread("deleted")
    assert threads(client, "deleted") == []


def test_a_thread_that_was_ended_does_not_begin_empty(client: Client) -> None:
    saver = PawlSaver(client, name="ended")
    config: Any = {"configurable": {"thread_id": "ended"}}
    graph_of(saver).invoke({"said": []}, config)
    (info,) = threads(client, "ended")
    client.attach(info.run_id).cancel("on the page")
    words = "thread 'ended' has ended: CANCELLED; delete_thread begins it again"
    for each in (saver, PawlSaver(client, name="ended")):
        with pytest.raises(ThreadEndedError, match=words):
            graph_of(each).invoke({"said": []}, config)
        with pytest.raises(ThreadEndedError, match=words):
            each.put_writes(
                {"configurable": {"thread_id": "ended", "checkpoint_id": "1"}},
                [("said", 1)],
                "task",
            )
    assert [run.run_id for run in threads(client, "ended")] == [info.run_id]
    saver.delete_thread("ended")
    assert threads(client, "ended") == []
    assert graph_of(saver).invoke({"said": ["new"]}, config)["said"] == ["new", "asked"]


def test_threads_that_do_not_exist_take_no_memory(client: Client) -> None:
    saver = PawlSaver(client, name="none")
    for number in range(3):
        assert saver.get_tuple({"configurable": {"thread_id": f"none-{number}"}}) is None
    assert not saver._threads._opening


def threads(client: Client, name: str) -> list[RunInfo]:
    return list(client.list_runs(RunFilter(pack=f"{name}-threads")))


def letters(seed: int, size: int = 1000) -> str:
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=size))


def test_a_list_that_grows_is_stored_once(client: Client) -> None:
    def say(state: State) -> dict[str, list[str]]:
        return {"said": [letters(len(state["said"]))]}

    builder = StateGraph(State)
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    builder.add_conditional_edges("say", lambda state: END if len(state["said"]) > 99 else "say")
    graph = builder.compile(checkpointer=PawlSaver(client, name="growing"))
    config: Any = {"configurable": {"thread_id": "growing"}, "recursion_limit": 200}
    graph.invoke({"said": []}, config)
    (info,) = threads(client, "growing")
    records = client.attach(info.run_id).records(kinds=["ARTIFACTS_SET"])
    bodies = [record.body for record in records]
    written = [body.artifacts_written for body in bodies if isinstance(body, ArtifactsSet)]
    inline = [{write.name: write.value for write in writes}.get("data") for writes in written]
    sizes = [len(data) if isinstance(data, bytes) else None for data in inline[-20:]]
    assert all(size is not None and size < 3000 for size in sizes), "the list has 100 000 bytes"
    again = builder.compile(checkpointer=PawlSaver(client, name="growing"))
    states = [state.values for state in again.get_state_history(config)]
    assert [len(state["said"]) for state in states[:3]] == [100, 99, 98]
    assert states[0]["said"] == [letters(n) for n in range(100)]


def test_large_values_are_blobs(client: Client) -> None:
    text = letters(1, 200_000)
    config = {"configurable": {"thread_id": "large"}}
    graph_of(PawlSaver(client, name="large")).invoke({"said": [text]}, config)
    found = graph_of(PawlSaver(client, name="large")).get_state(config).values["said"]
    assert found == [text, "asked"]


@pytest.mark.parametrize("thread_id", ["", "x" * 257])
def test_bad_ids_of_threads(client: Client, thread_id: str) -> None:
    with pytest.raises(ValueError, match="thread_id: must have 1 to 256 bytes"):
        graph_of(PawlSaver(client)).invoke({"said": []}, {"configurable": {"thread_id": thread_id}})


def test_a_value_that_cannot_be_serialized(client: Client) -> None:
    class Odd(TypedDict):
        value: Any

    builder = StateGraph(Odd)
    builder.add_node("make", lambda state: {"value": (n for n in range(3))})
    builder.add_edge(START, "make")
    graph = builder.compile(checkpointer=PawlSaver(client, name="odd"))
    with pytest.raises(TypeError):
        graph.invoke({"value": 1}, {"configurable": {"thread_id": "odd"}})


async def test_an_asynchronous_client_needs_its_loop(sidecar: Sidecar) -> None:
    async with AsyncClient(address=sidecar.address) as client:
        graph = graph_of(PawlSaver(client, name="soon"))
        config = {"configurable": {"thread_id": "soon"}}
        result = await graph.ainvoke({"said": []}, config)
        assert result["said"] == ["asked"]
        with pytest.raises(RuntimeError, match="use a Client for invoke"):
            graph.invoke({"said": []}, config)
