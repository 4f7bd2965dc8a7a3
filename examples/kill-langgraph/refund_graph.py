"""A graph of LangGraph that refunds an order. It dies once at each of its points.

A class plays the model. What the model was asked and what the bank did are lines of files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pawl_client import Client, current_call
from pawl_client.langgraph import PawlDurability, bounds

from world import World

POINTS = (
    "the model has answered, and nothing is recorded",
    "the tool is called, and the bank does not know it",
    "the bank has paid, and nothing is recorded",
    "the last answer is being streamed",
    "the last answer is not recorded",
)


class PlayedModel(BaseChatModel):
    """Asks for a refund, then thanks."""

    world: Any

    @property
    def _llm_type(self) -> str:
        return "played"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, AIMessage]:
        """Returns the model: it knows its tools."""
        return self.bind(**options)

    def _generate(self, messages: list[BaseMessage], *rest: Any, **options: Any) -> ChatResult:
        raise NotImplementedError("the graph is streamed")

    def _stream(
        self, messages: list[BaseMessage], *rest: Any, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        first = len(messages) == 1
        self.world.write("asked", "first" if first else "last")
        if first:
            self.world.reach(0)
            arguments = json.dumps({"order": "17", "amount": 40})
            call: Any = {"name": "refund", "args": arguments, "id": "call-1", "index": 0}
            yield _chunk(AIMessageChunk(content="", tool_call_chunks=[call]))
            return
        yield _chunk(AIMessageChunk(content="You get"))
        self.world.reach(3)
        yield _chunk(AIMessageChunk(content=" 40 back."))
        self.world.reach(4)


def _chunk(message: AIMessageChunk) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=message)


def execute(client: Client, world: World) -> str:
    """Executes the graph and returns its last answer."""

    @tool
    def refund(order: str, amount: float) -> str:
        """Refunds an order; the bank books a key once."""
        world.reach(1)
        world.write("bank", current_call().idempotency_key)
        world.reach(2)
        return f"refunded {amount:.2f}"

    durability = PawlDurability(client, bounds=bounds(max_tool_calls=3, repeat=["refund"]))
    tools = [durability.durable(refund)]
    model = durability.durable(PlayedModel(world=world).bind_tools(tools))

    def chatbot(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node(chatbot)
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "chatbot")
    builder.add_conditional_edges("chatbot", tools_condition)
    builder.add_edge("tools", "chatbot")
    graph = durability.durable(builder.compile(name="refund-graph"))
    given = {"messages": "Order 17 is broken."}
    *_, last = graph.stream(given, request_id="order-17", stream_mode=["messages", "values"])
    return str(last[1]["messages"][-1].content)


def main(address: str, directory: str) -> None:
    """Executes the graph and prints its last answer."""
    with Client(address=address, retry_for=60) as client:
        print(execute(client, World(Path(directory), POINTS)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
