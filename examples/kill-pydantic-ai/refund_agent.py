"""An agent of Pydantic AI that refunds an order. It dies once at each of its points.

A function plays the model. What the model was asked and what the bank did are lines of files.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pawl_client import Client, current_call
from pawl_client.pydantic_ai import PawlDurability, bounds
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from world import World

POINTS = (
    "the model has answered, and nothing is recorded",
    "the tool is called, and the bank does not know it",
    "the bank has paid, and nothing is recorded",
    "the last answer is not recorded",
)


def main(address: str, directory: str) -> None:
    """Executes the agent and prints its output."""
    world = World(Path(directory), POINTS)

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        first = len(messages) == 1
        world.write("asked", "first" if first else "last")
        world.reach(0 if first else 3)
        if first:
            return ModelResponse(parts=[ToolCallPart("refund", {"order": "17", "amount": 40})])
        return ModelResponse(parts=[TextPart("You get 40 back.")])

    with Client(address=address, retry_for=60) as client:
        limits = bounds(max_tool_calls=3, repeat=["refund"])
        durability = PawlDurability[None](client, bounds=limits)
        agent = Agent(FunctionModel(model), name="refund-agent", capabilities=[durability])

        @agent.tool_plain
        def refund(order: str, amount: float) -> str:
            """Refunds an order; the bank books a key once."""
            world.reach(1)
            world.write("bank", current_call().idempotency_key)
            world.reach(2)
            return f"refunded {amount:.2f}"

        with durability.run(request_id="order-17"):
            print(agent.run_sync("Order 17 is broken.").output)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
