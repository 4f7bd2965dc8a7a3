"""Agents of pydantic-ai that run durably: what is recorded, replayed, bounded and refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from newest_run import run_of
from pawl_client import (
    AsyncClient,
    Client,
    RunFilter,
    StepKind,
    StepRequested,
    StepResolved,
    current_call,
)
from pawl_client.pydantic_ai import DurableRunError, PawlDurability, bounds
from pawl_client.testing import Sidecar

Answer = list[Any]


class Model:
    """A model that gives these answers in order, and counts how often it is asked."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers, self.asked = answers, 0
        self.seen: list[list[ModelMessage]] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked += 1
        self.seen.append(list(messages))
        before = sum(isinstance(message, ModelResponse) for message in messages)
        answer = self.answers[min(before, len(self.answers) - 1)]
        if isinstance(answer, Exception):
            raise answer
        return ModelResponse(parts=answer, usage=RequestUsage(input_tokens=100, output_tokens=10))


def call(tool: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(tool, arguments)


def ask(agent: Agent[Any, Any], prompt: str, **options: Any) -> Any:
    """One run of an agent, in a loop that is closed."""
    return asyncio.run(agent.run(prompt, **options))


def text(words: str) -> TextPart:
    return TextPart(words)


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    with Sidecar(allow_tools=["*"], flags=["--step-grace=1s"]) as process:
        yield process


def test_an_agent_runs_once_under_one_id(client: Client) -> None:
    model, effects = Model([text("One moment."), call("add", a=1, b=2)], [text("It is 3.")]), []
    durability: PawlDurability[None] = PawlDurability(client)
    agent = Agent(FunctionModel(model), name="once", capabilities=[durability])

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        """Adds."""
        effects.append(current_call().idempotency_key)
        return a + b

    results = []
    for _ in range(2):
        with durability.run(request_id="once"):
            results.append(ask(agent, "What is 1 + 2?"))
    run = run_of(client, "once")
    assert [result.output for result in results] == ["It is 3.", "It is 3."]
    assert results[0].all_messages()[1:2] == results[1].all_messages()[1:2]
    assert results[0].usage == results[1].usage
    assert (model.asked, effects) == (2, [f"{run.id}/2"])
    info = run.info()
    assert (info.status, info.tool_calls, info.tokens) == ("COMPLETED", 1, 220)
    assert run.result().text == "It is 3."
    bodies = [record.body for record in run.records(kinds=["STEP_REQUESTED"])]
    asked = [body for body in bodies if isinstance(body, StepRequested)]
    assert [body.kind for body in asked] == [StepKind.MODEL, StepKind.TOOL, StepKind.MODEL]
    assert asked[1].key == "model/1/0"
    assert asked[1].payload == {"a": 1, "b": 2}
    first, last = run.model_step(1), run.model_step(3)
    assert [message.role for message in first.messages] == ["user"]
    assert [message.role for message in last.messages] == ["user", "assistant", "tool"]


async def test_with_an_asynchronous_client(sidecar: Sidecar) -> None:
    model = Model([call("add", a=1, b=2), call("add", a=3, b=4)], [text("Done.")])
    together = asyncio.Event()
    async with sidecar.async_client() as client:
        durability: PawlDurability[str] = PawlDurability(client)
        agent = Agent(FunctionModel(model), name="soon", deps_type=str, capabilities=[durability])
        running: list[int] = []

        @agent.tool
        async def add(ctx: RunContext[str], a: int, b: int) -> int:
            """Adds, both calls at the same time."""
            assert ctx.deps == "deps"
            running.append(a)
            if len(running) == 2:
                together.set()
            await together.wait()
            return a + b

        with durability.run(request_id="soon"):
            first = await agent.run("Add.", deps="deps")
            second = await agent.run("Again.", deps="deps", message_history=first.all_messages())
        with durability.run(request_id="soon"):
            assert (await agent.run("Add.", deps="deps")).output == "Done."
    assert (first.output, second.output, model.asked) == ("Done.", "Done.", 3)
    assert sorted(running) == [1, 3]


def test_without_a_block_the_agent_is_as_before(client: Client) -> None:
    durability: PawlDurability[None] = PawlDurability(client)
    agent = Agent(TestModel(), name="plain", capabilities=[durability])
    assert ask(agent, "Hi.").output == "success (no tool calls)"
    assert list(client.list_runs(RunFilter(pack="plain"))) == []


class Receipt(BaseModel):
    """A structured output."""

    order: str
    amount: float


def test_structured_values(client: Client) -> None:
    model = Model(
        [call("look_up", order="17")],
        [call("final_result", order="17", amount="five")],
        [call("final_result", order="17", amount=5)],
    )
    durability: PawlDurability[None] = PawlDurability(client)
    agent = Agent(
        FunctionModel(model), name="typed", output_type=Receipt, capabilities=[durability]
    )
    tries: list[str] = []

    @agent.tool_plain(retries=2)
    def look_up(order: str) -> Receipt:
        """Looks up."""
        tries.append(order)
        return Receipt(order=order, amount=5)

    for _ in range(2):
        with durability.run(request_id="typed"):
            result = ask(agent, "Which?")
        assert result.output == Receipt(order="17", amount=5)
        returned = [
            part
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, ToolReturnPart) and part.tool_name == "look_up"
        ]
        assert returned[0].model_response_str() == '{"order":"17","amount":5.0}'
    assert (model.asked, tries) == (3, ["17"])
    assert json.loads(run_of(client, "typed").result().text or "null") in (
        None,
        {"order": "17", "amount": 5.0},
    )


def test_a_tool_asks_for_a_retry(client: Client) -> None:
    model = Model([call("look", n=1)], [call("look", n=2)], [text("Found.")])
    durability: PawlDurability[None] = PawlDurability(client)
    agent = Agent(FunctionModel(model), name="retrying", capabilities=[durability])
    made: list[int] = []

    @agent.tool_plain
    def look(n: int) -> str:
        """Looks."""
        made.append(n)
        if n == 1:
            raise ModelRetry("Try 2.")
        return "here"

    for _ in range(2):
        with durability.run(request_id="retrying"):
            result = ask(agent, "Look.")
        assert "Try 2." in str(result.all_messages())
    assert (result.output, made, model.asked) == ("Found.", [1, 2], 3)


def streaming(client: AsyncClient) -> tuple[Agent[None, str], PawlDurability[None], list[int]]:
    """An agent whose model streams, and how often it was asked."""
    asked: list[int] = []

    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        asked.append(len(messages))
        if len(messages) == 1:
            yield {0: DeltaToolCall(name="look", json_args='{"city": "Oslo"}', tool_call_id="a")}
        else:
            for words in ("It ", "is ", "21."):
                yield words

    durability: PawlDurability[None] = PawlDurability(client)
    agent = Agent(FunctionModel(stream_function=model), name="streaming", capabilities=[durability])

    @agent.tool_plain
    def look(city: str) -> int:
        """Looks."""
        return 21

    return agent, durability, asked


async def test_streams(sidecar: Sidecar) -> None:
    async with sidecar.async_client() as client:
        agent, durability, asked = streaming(client)
        for _ in range(2):
            with durability.run(request_id="text"):
                async with agent.run_stream("Weather?") as result:
                    words = [piece async for piece in result.stream_text(delta=True)]
            assert "".join(words) == "It is 21."
            assert asked == [1, 3]
        kinds = []
        for _ in range(2):
            with durability.run(request_id="events"):
                async with agent.run_stream_events("Weather?") as events:
                    kinds.append([type(event).__name__ async for event in events])
        assert kinds[0] == kinds[1]
        assert asked == [1, 3, 1, 3]


async def test_a_stream_that_is_left_is_continued(sidecar: Sidecar) -> None:
    async with sidecar.async_client() as client:
        agent, durability, asked = streaming(client)
        with durability.run(request_id="left"):
            async with agent.run_stream("Weather?") as result:
                async for _ in result.stream_text(delta=True):
                    break
        with durability.run(request_id="left"):
            async with agent.run_stream("Weather?") as result:
                assert await result.get_output() == "It is 21."
        assert asked == [1, 3]


async def test_a_run_that_is_cancelled_is_continued(sidecar: Sidecar) -> None:
    async with sidecar.async_client() as client:
        durability: PawlDurability[None] = PawlDurability(client)
        model = Model([call("add", a=1, b=2)], [text("Done.")])
        agent = Agent(FunctionModel(model), name="cancelled", capabilities=[durability])
        reached, release = asyncio.Event(), asyncio.Event()
        made = []

        @agent.tool_plain
        async def add(a: int, b: int) -> int:
            """Adds."""
            made.append(a)
            return a + b

        @agent.instructions
        async def instructions(ctx: RunContext[None]) -> str:
            if made and not release.is_set():
                reached.set()
                await release.wait()
            return "Be brief."

        with durability.run(request_id="cancelled"):
            task = asyncio.create_task(agent.run("Add."))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            release.set()
        with durability.run(request_id="cancelled"):
            assert (await agent.run("Add.")).output == "Done."
    assert (model.asked, made) == (2, [1])


async def test_an_operator_cancels_the_run(sidecar: Sidecar) -> None:
    async with sidecar.async_client() as client:
        durability: PawlDurability[None] = PawlDurability(client)
        agent = Agent(
            FunctionModel(Model([call("stop")], [text("Never.")])),
            name="stopped",
            capabilities=[durability],
        )

        @agent.tool_plain
        async def stop() -> str:
            """Is cancelled meanwhile."""
            await client.attach(current_call().run_id).cancel("enough")
            return ""

        with durability.run(request_id="stopped"), pytest.raises(DurableRunError) as caught:
            await agent.run("Stop.")
        assert caught.value.status == "CANCELLED"


async def test_a_tool_that_is_cancelled_may_have_had_its_effect(sidecar: Sidecar) -> None:
    async with sidecar.async_client() as client:
        limits = bounds(repeat=["wait"])
        durability: PawlDurability[None] = PawlDurability(client, bounds=limits)
        model = Model([call("wait")], [text("Done.")])
        agent = Agent(FunctionModel(model), name="unknown", capabilities=[durability])
        begun, keys = asyncio.Event(), []

        @agent.tool_plain
        async def wait() -> str:
            """Waits, the first time for ever."""
            keys.append(current_call().idempotency_key)
            begun.set()
            if len(keys) == 1:
                await asyncio.Event().wait()
            return "waited"

        with durability.run(request_id="unknown"):
            task = asyncio.create_task(agent.run("Wait."))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await agent.run("Something else.")).output == "Done."
        with durability.run(request_id="unknown"):
            assert (await agent.run("Wait.")).output == "Done."
        run = client.attach(keys[0].partition("/")[0])
        found = [record.body async for record in run.records(kinds=["STEP_RESOLVED"])]
        unknown = [body.unknown for body in found if isinstance(body, StepResolved)]
    assert keys[0] == keys[2]
    assert keys[0] != keys[1]
    assert unknown == [False, True, False, False]
    assert model.asked == 4
