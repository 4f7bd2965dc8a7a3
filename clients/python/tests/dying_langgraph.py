"""The graph of LangGraph that test_langgraph_crash kills: it dies once at the named point.

Each effect is a line of a ledger file, which removes no duplicates: what a model was asked, and
what the tool did under which key.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from dying_world import World, request_id
from pawl_client import Client, current_call
from pawl_client.langgraph import (
    DurableGraph,
    DurableRunError,
    NotDurableWarning,
    PawlDurability,
    PawlSaver,
    bounds,
)
from scripted_chat import ScriptedChat


def graph_of(world: World, durability: PawlDurability, saver: PawlSaver | None) -> DurableGraph:
    """A graph that looks up, charges and thanks."""

    class Model(ScriptedChat):
        def asked_for(self, answers: int) -> None:
            world.note(asked=answers)
            if answers == 1:
                world.reach("before the answer's record")
            if answers == 2:
                world.reach("after the last answer")

        def streaming(self, answers: int) -> None:
            if answers == 2:
                world.reach("in the last stream")

    @tool
    def look_up(order: str) -> dict[str, str]:
        """Looks up an order."""
        world.note(looked=order)
        return {"order": order, "state": "open"}

    @tool
    def charge(order: str, amount: float) -> str:
        """Charges an order."""
        world.reach("in the effect")
        world.note(charged=current_call().idempotency_key)
        world.reach("after the effect")
        return f"charged {amount} for {order}"

    tools = [durability.durable(look_up), durability.durable(charge)]
    script = Model.of(
        [("look_up", {"order": "17"})],
        [("charge", {"order": "17", "amount": 5})],
        "Thank you for 2 answers.",
    )
    model = durability.durable(script.bind_tools(tools))

    def chatbot(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def before(request: Any, execute: Any) -> Any:
        world.reach("before the call")
        return execute(request)

    builder = StateGraph(MessagesState)
    builder.add_node(chatbot)
    builder.add_node("tools", ToolNode(tools, wrap_tool_call=before))
    builder.add_edge(START, "chatbot")
    builder.add_conditional_edges("chatbot", tools_condition)
    builder.add_edge("tools", "chatbot")
    return durability.durable(builder.compile(name="Dying", checkpointer=saver))


def main(address: str, directory: str, point: str, repeat: str, *victims: str) -> None:
    """Executes the graph once and prints its output, or how the run ended."""
    pids = [os.getpid() if victim == "me" else int(victim) for victim in victims]
    world = World(Path(directory), point, pids)
    repeated = ["look_up", "charge"] if "repeat" in repeat else ["look_up"]
    with Client(address=address, retry_for=60, timeout=60) as client:
        durability = PawlDurability(client, bounds=bounds(repeat=repeated))
        saver = PawlSaver(client, name="dying") if "saver" in repeat else None
        graph = graph_of(world, durability, saver)
        given: Any = {"messages": "Charge order 17."}
        own = request_id(Path(directory), point, repeat)
        try:
            if point == "in the last stream":
                *_, last = graph.stream(given, request_id=own, stream_mode=["messages", "values"])
                print(last[1]["messages"][-1].content)
            else:
                print(graph.invoke(given, request_id=own)["messages"][-1].content)
        except DurableRunError as error:
            print(error.status, error.reason)


if __name__ == "__main__":
    # LangChain swallows what a callback handler raises, so the warnings are looked at here.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotDurableWarning)
        main(*sys.argv[1:])
    sys.exit(
        "\n".join(str(one.message) for one in caught if one.category is NotDurableWarning) or 0
    )
