"""The agent that test_pydantic_ai_crash kills: it dies once at the named point.

Each effect is a line of a ledger file, which removes no duplicates: what a model was asked, and
what the tool did under which key.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from dying_world import World, request_id
from pawl_client import Client, current_call
from pawl_client.pydantic_ai import DurableRunError, PawlDurability, bounds


class Before(AbstractCapability[None]):
    """Reaches a point before each tool call."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        self._world.reach("before the call")
        return args


def agent_of(world: World, durability: PawlDurability[None]) -> Agent[None, str]:
    """An agent that looks up, charges and thanks."""

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        answers = sum(isinstance(message, ModelResponse) for message in messages)
        world.note(asked=answers)
        calls = (("look_up", {"order": "17"}), ("charge", {"order": "17", "amount": 5}))
        if answers < len(calls):
            name, arguments = calls[answers]
            if answers == 1:
                world.reach("before the answer's record")
            return ModelResponse(parts=[ToolCallPart(name, arguments)])
        world.reach("after the last answer")
        return ModelResponse(parts=[TextPart(f"Thank you for {answers} answers.")])

    capabilities = [durability, Before(world)]
    agent = Agent(FunctionModel(model), name="Dying", capabilities=capabilities)

    @agent.tool_plain
    def look_up(order: str) -> dict[str, str]:
        """Looks up an order."""
        world.note(looked=order)
        return {"order": order, "state": "open"}

    @agent.tool_plain
    def charge(order: str, amount: float) -> str:
        """Charges an order."""
        world.reach("in the effect")
        world.note(charged=current_call().idempotency_key)
        world.reach("after the effect")
        return f"charged {amount} for {order}"

    return agent


def main(address: str, directory: str, point: str, repeat: str, *victims: str) -> None:
    """Executes the agent once and prints its output, or how the run ended."""
    pids = [os.getpid() if victim == "me" else int(victim) for victim in victims]
    world = World(Path(directory), point, pids)
    repeated = ["look_up", "charge"] if repeat == "repeat" else ["look_up"]
    with Client(address=address, retry_for=60, timeout=60) as client:
        durability: PawlDurability[None] = PawlDurability(client, bounds=bounds(repeat=repeated))
        agent = agent_of(world, durability)
        try:
            with durability.run(request_id=request_id(Path(directory), point, repeat)):
                print(agent.run_sync("Charge order 17.").output)
        except DurableRunError as error:
            print(error.status, error.reason)


if __name__ == "__main__":
    main(*sys.argv[1:])
