"""Measures what a durable model call of an agent of Pydantic AI costs, beside the bare library.

    PAWL_SIDECAR=bin/pawl clients/python/.venv/bin/python bench/durable_agent.py [CALLS] [RUNS]

One agent makes CALLS model calls in a run (default 40), in turn without and with a sidecar, in one
process. The model is a function. Prints the p50 of the time between two calls, in milliseconds.
"""

import asyncio
import itertools
import statistics
import sys
import time

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from pawl_client.pydantic_ai import PawlDurability
from pawl_client.testing import Sidecar


class Model:
    """A model whose last answer is the only one that the agent accepts."""

    def __init__(self, calls: int) -> None:
        self.calls, self.times = calls, list[float]()

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.times.append(time.perf_counter())
        last = len(self.times) == self.calls
        return ModelResponse(parts=[TextPart("done" if last else "more")])

    def p50(self) -> float:
        """Returns the median time between two calls in milliseconds, and starts again."""
        times, self.times = self.times, []
        return statistics.median(b - a for a, b in itertools.pairwise(times)) * 1000


def agent_of(model: Model, durability: PawlDurability[None] | None) -> Agent[None, str]:
    """An agent that asks until the model is done."""
    agent = Agent(
        FunctionModel(model),
        name="bench",
        retries=model.calls,
        capabilities=[durability] if durability else [],
    )

    @agent.output_validator
    def accepted(output: str) -> str:
        if output != "done":
            raise ModelRetry("go on")
        return output

    return agent


async def main(calls: int, runs: int) -> None:
    """Prints one line for each run, and the medians of all."""
    model, lines = Model(calls), list[tuple[float, float]]()
    with Sidecar() as sidecar:
        async with sidecar.async_client() as client:
            durability = PawlDurability[None](client)
            bare, durable = agent_of(model, None), agent_of(model, durability)
            for number in range(runs):
                await bare.run("Go.")
                without = model.p50()
                with durability.run(request_id=f"run-{number}"):
                    await durable.run("Go.")
                lines.append((without, model.p50()))
                print(f"bare {lines[-1][0]:.2f} ms, durable {lines[-1][1]:.2f} ms")
    added = statistics.median(durable - bare for bare, durable in lines)
    print(f"a durable model call adds {added:.2f} ms at p50")


asyncio.run(main(*(int(word) for word in [*sys.argv[1:], *("40", "5")[len(sys.argv) - 1 :]])))
