"""A durable agent of Pydantic AI: python app.py [QUESTION [ID]]. `pawl dev` starts it."""

import os
import sys
import uuid
from typing import Any

import offline
from pawl_client import Client, current_call
from pawl_client.pydantic_ai import PawlDurability, bounds
from pydantic_ai import Agent

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


def order_status(order: str) -> str:
    """Returns the state of an order. Replace this by your own system."""
    return ORDERS.get(order, "unknown")


def refund(order: str, amount: float) -> str:
    """Refunds an order, once for each key. Send the key to your payment provider."""
    key = current_call().idempotency_key
    return PAID.setdefault(key, f"{amount:.2f} for order {order}")


def model() -> Any:
    """Returns the model: a real one with a key, else the recorded one."""
    if not os.environ.get("OPENAI_API_KEY"):
        return offline.model()
    return os.environ.get("MODEL", "openai:gpt-5-mini")


def ask(client: Client, question: str, request_id: str) -> str:
    """Returns the agent's answer. The same id has the same answer, and continues after a crash."""
    durability: PawlDurability[None] = PawlDurability(client, bounds=LIMITS)
    agent = Agent(
        model(),
        name="my-agent",
        instructions="Answer questions about orders, and refund them.",
        tools=[order_status, refund],
        capabilities=[durability],
    )
    with durability.run(request_id=request_id):
        return agent.run_sync(question).output


def main() -> None:
    """Asks one question. PAWL_ADDR is the sidecar."""
    question = sys.argv[1] if len(sys.argv) > 1 else "EXAMPLE_INPUT"
    request_id = sys.argv[2] if len(sys.argv) > 2 else str(uuid.uuid4())
    print(f"{question} (id {request_id})")
    with Client() as client:
        print(ask(client, question, request_id))


if __name__ == "__main__":
    main()
