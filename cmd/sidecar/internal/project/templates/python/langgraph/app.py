"""A durable graph of LangGraph: python app.py [QUESTION [ID]]. `pawl dev` starts it."""

import os
import sys
import uuid
from typing import Any

import offline
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pawl_client import Client, current_call
from pawl_client.langgraph import PawlDurability, bounds

ORDERS = {"17": "shipped on Monday", "18": "in the warehouse"}
PAID: dict[str, str] = {}

# The sidecar enforces these. A tool in `repeat` is called again after a crash in it. Add `refund`
# when your payment provider gets the key; until then a person looks at a refund whose outcome is
# unknown.
LIMITS = bounds(
    max_tool_calls=10,
    approve={"refund": "payload.amount > 100.0"},
    repeat=["order_status"],
)


@tool
def order_status(order: str) -> str:
    """Returns the state of an order. Replace this by your own system."""
    return ORDERS.get(order, "unknown")


@tool
def refund(order: str, amount: float) -> str:
    """Refunds an order, once for each key. Send the key to your payment provider."""
    key = current_call().idempotency_key
    return PAID.setdefault(key, f"{amount:.2f} for order {order}")


def model() -> BaseChatModel:
    """Returns the model: a real one with a key, else the recorded one."""
    if not os.environ.get("OPENAI_API_KEY"):
        return offline.RecordedModel()
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=os.environ.get("MODEL", "gpt-5-mini"))


def build(durability: PawlDurability) -> Any:
    """Returns the durable graph: its model and its tools are recorded."""
    tools = [durability.durable(order_status), durability.durable(refund)]
    chat = durability.durable(model()).bind_tools(tools)

    def chatbot(state: MessagesState) -> dict[str, Any]:
        return {"messages": [chat.invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node(chatbot)
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "chatbot")
    builder.add_conditional_edges("chatbot", tools_condition)
    builder.add_edge("tools", "chatbot")
    return durability.durable(builder.compile(name="my-agent"))


def ask(client: Client, question: str, request_id: str) -> str:
    """Returns the graph's answer. The same id has the same answer, and continues after a crash."""
    graph = build(PawlDurability(client, bounds=LIMITS))
    result = graph.invoke({"messages": question}, request_id=request_id)
    return str(result["messages"][-1].content)


def main() -> None:
    """Asks one question. PAWL_ADDR is the sidecar."""
    question = sys.argv[1] if len(sys.argv) > 1 else "EXAMPLE_INPUT"
    request_id = sys.argv[2] if len(sys.argv) > 2 else str(uuid.uuid4())
    print(f"{question} (id {request_id})")
    with Client() as client:
        print(ask(client, question, request_id))


if __name__ == "__main__":
    main()
