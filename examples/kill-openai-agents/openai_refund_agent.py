"""An agent of the OpenAI Agents SDK that refunds an order. It dies once at each of its points.

A class plays the model. What the model was asked and what the bank did are lines of files.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, function_tool, set_tracing_disabled
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)
from pawl_client import Client, current_call
from pawl_client.openai_agents import PawlRunner, bounds

from world import World

POINTS = (
    "the model has answered, and nothing is recorded",
    "the tool is called, and the bank does not know it",
    "the bank has paid, and nothing is recorded",
    "the last answer is being streamed",
    "the last answer is not recorded",
)


class PlayedModel(Model):
    """Asks for a refund, then thanks."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def get_response(self, *request: Any, **more: Any) -> ModelResponse:
        """Is not called: the run is streamed."""
        raise NotImplementedError

    async def stream_response(self, *request: Any, **more: Any) -> AsyncIterator[Any]:
        """Yields the events of the answer."""
        first = len(request[1]) == 1
        self._world.write("asked", "first" if first else "last")
        if first:
            self._world.reach(0)
            arguments = json.dumps({"order": "17", "amount": 40})
            yield _completed(
                ResponseFunctionToolCall(
                    type="function_call", call_id="call-1", name="refund", arguments=arguments
                )
            )
            return
        yield ResponseTextDeltaEvent(
            type="response.output_text.delta",
            delta="You get",
            content_index=0,
            item_id="message-1",
            logprobs=[],
            output_index=0,
            sequence_number=1,
        )
        self._world.reach(3)
        self._world.reach(4)
        words = ResponseOutputText(type="output_text", text="You get 40 back.", annotations=[])
        yield _completed(
            ResponseOutputMessage(
                type="message",
                id="message-1",
                role="assistant",
                status="completed",
                content=[words],
            )
        )


def _completed(item: Any) -> ResponseCompletedEvent:
    response = Response(
        id="response-1",
        created_at=0,
        model="played",
        object="response",
        output=[item],
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
    )
    return ResponseCompletedEvent(type="response.completed", sequence_number=9, response=response)


async def execute(client: Client, world: World) -> str:
    """Executes the agent and returns its output."""

    @function_tool
    def refund(order: str, amount: float) -> str:
        """Refunds an order; the bank books a key once."""
        world.reach(1)
        world.write("bank", current_call().idempotency_key)
        world.reach(2)
        return f"refunded {amount:.2f}"

    agent = Agent(name="refund-agent", model=PlayedModel(world), tools=[refund])
    runner = PawlRunner(client, bounds=bounds(max_tool_calls=3, repeat=["refund"]))
    result = runner.run_streamed(agent, "Order 17 is broken.", request_id="order-17")
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


def main(address: str, directory: str) -> None:
    """Executes the agent and prints its output."""
    set_tracing_disabled(True)
    with Client(address=address, retry_for=60) as client:
        print(asyncio.run(execute(client, World(Path(directory), POINTS))))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
