"""A durable agent of the OpenAI Agents SDK: python app.py [QUESTION [ID]]. `pawl dev` starts it."""

import os
import sys
import uuid

import offline
from agents import Agent, Model, function_tool, set_tracing_disabled
from pawl_client import Client, current_call
from pawl_client.openai_agents import PawlRunner, bounds

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


@function_tool
def order_status(order: str) -> str:
    """Returns the state of an order. Replace this by your own system."""
    return ORDERS.get(order, "unknown")


@function_tool
def refund(order: str, amount: float) -> str:
    """Refunds an order, once for each key. Send the key to your payment provider."""
    key = current_call().idempotency_key
    return PAID.setdefault(key, f"{amount:.2f} for order {order}")


def model() -> str | Model:
    """Returns the model: a real one with a key, else the recorded one."""
    if not os.environ.get("OPENAI_API_KEY"):
        set_tracing_disabled(True)  # The SDK sends traces to OpenAI with the key.
        return offline.RecordedModel()
    return os.environ.get("MODEL", "gpt-5-mini")


def ask(client: Client, question: str, request_id: str) -> str:
    """Returns the agent's answer. The same id has the same answer, and continues after a crash."""
    agent = Agent(
        name="my-agent",
        model=model(),
        instructions="Answer questions about orders, and refund them.",
        tools=[order_status, refund],
    )
    runner = PawlRunner(client, bounds=LIMITS)
    return str(runner.run_sync(agent, question, request_id=request_id).final_output)


def main() -> None:
    """Asks one question. PAWL_ADDR is the sidecar."""
    question = sys.argv[1] if len(sys.argv) > 1 else "EXAMPLE_INPUT"
    request_id = sys.argv[2] if len(sys.argv) > 2 else str(uuid.uuid4())
    print(f"{question} (id {request_id})")
    with Client() as client:
        print(ask(client, question, request_id))


if __name__ == "__main__":
    main()
