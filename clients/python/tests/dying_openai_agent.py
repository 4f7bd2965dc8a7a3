"""The agent that test_openai_agents_crash kills: it dies once at the named point.

Each effect is a line of a ledger file, which removes no duplicates: what a model was asked, and
what the tool did under which key.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from agents import Agent, RunHooks, Tool, function_tool, set_tracing_disabled

from dying_world import World, request_id
from pawl_client import Client, current_call
from pawl_client.openai_agents import DurableRunError, PawlRunner, bounds
from scripted_agents import ScriptedModel, call, text


class Before(RunHooks[None]):
    """Reaches a point before each tool call."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def on_tool_start(self, context: Any, agent: Any, tool: Tool) -> None:
        self._world.reach("before the call")


def agent_of(world: World) -> Agent[None]:
    """An agent that looks up, charges and thanks."""

    class Model(ScriptedModel):
        def asked_for(self, answers: int) -> None:
            world.note(asked=answers)
            if answers == 1:
                world.reach("before the answer's record")
            if answers == 2:
                world.reach("after the last answer")

        def streaming(self, answers: int) -> None:
            if answers == 1:
                world.reach("in the stream")

    @function_tool
    def look_up(order: str) -> dict[str, str]:
        """Looks up an order."""
        world.note(looked=order)
        return {"order": order, "state": "open"}

    @function_tool
    def charge(order: str, amount: float) -> str:
        """Charges an order."""
        world.reach("in the effect")
        world.note(charged=current_call().idempotency_key)
        world.reach("after the effect")
        return f"charged {amount} for {order}"

    model = Model(
        [call("look_up", order="17")],
        [call("charge", order="17", amount=5)],
        [text("Thank you for 2 answers.")],
    )
    return Agent(name="Dying", model=model, tools=[look_up, charge])


async def streamed(runner: PawlRunner, agent: Agent[None], **options: Any) -> str:
    """The output of a streamed run."""
    result = runner.run_streamed(agent, "Charge order 17.", **options)
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


def main(address: str, directory: str, point: str, repeat: str, *victims: str) -> None:
    """Executes the agent once and prints its output, or how the run ended."""
    set_tracing_disabled(True)
    pids = [os.getpid() if victim == "me" else int(victim) for victim in victims]
    world = World(Path(directory), point, pids)
    repeated = ["look_up", "charge"] if repeat == "repeat" else ["look_up"]
    with Client(address=address, retry_for=60, timeout=60) as client:
        runner = PawlRunner(client, bounds=bounds(repeat=repeated))
        options: dict[str, Any] = {
            "request_id": request_id(Path(directory), point, repeat),
            "hooks": Before(world),
        }
        try:
            if point == "in the stream":
                print(asyncio.run(streamed(runner, agent_of(world), **options)))
            else:
                print(runner.run_sync(agent_of(world), "Charge order 17.", **options).final_output)
        except DurableRunError as error:
            print(error.status, error.reason)


if __name__ == "__main__":
    main(*sys.argv[1:])
