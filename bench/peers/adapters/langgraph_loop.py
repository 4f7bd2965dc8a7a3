"""The loop as a LangGraph graph: one node that interrupts for the next event."""

import operator
from typing import Annotated, Any, TypedDict

from adapters.peer import Peer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt


class Events(TypedDict):
    events: Annotated[list[str], operator.add]


def take(_: Events) -> dict[str, Any]:
    event = interrupt("next")
    return {} if event == "end" else {"events": [event]}


def builder() -> StateGraph:
    """Goes round `take` until the event "end" ends it."""
    graph = StateGraph(Events)
    graph.add_node("take", take)
    graph.add_edge(START, "take")
    graph.add_conditional_edges("take", lambda _: "take", ["take", END])
    return graph


class LangGraph(Peer):
    """What LangGraph does the same over any checkpointer. `self.graph` is compiled by open."""

    graph: Any

    async def start(self, run: str) -> None:
        await self.graph.ainvoke({"events": []}, _thread(run), durability="sync")

    async def event(self, run: str, seq: int, payload: str) -> None:
        await self.graph.ainvoke(Command(resume=payload), _thread(run), durability="sync")

    async def end(self, run: str) -> None:
        await self.graph.ainvoke(Command(resume="end", goto=END), _thread(run), durability="sync")

    async def read(self, run: str) -> list[str]:
        return list((await self.graph.aget_state(_thread(run))).values.get("events", []))


def _thread(run: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": run}, "recursion_limit": 100}
