"""Models of the OpenAI Agents SDK whose calls are steps of a durable run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from agents import Handoff, Model, ModelProvider, ModelResponse, ModelSettings, Tool, Usage
from agents.models import get_default_model
from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
from openai.types.responses import ResponseCompletedEvent

from pawl_client._durable_openai_messages import completed, streamed
from pawl_client._durable_openai_run import (
    AgentRun,
    ModelCallRequest,
    current_run,
    stream_failed,
)


class DurableModel(Model):
    """A model whose calls are steps of the durable run that the program executes."""

    def __init__(self, model: Model, name: str) -> None:
        self._model = model
        self._name = str(getattr(model, "model", "") or name)

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: Any,
        handoffs: list[Handoff[Any, Any]],
        tracing: Any,
        **conversation: Any,
    ) -> ModelResponse:
        """Returns the recorded answer of this call, or calls the model and records its answer."""
        request = ModelCallRequest(
            system_instructions,
            input,
            model_settings,
            tools,
            output_schema,
            handoffs,
            tracing,
            conversation,
        )

        async def make(changed: ModelCallRequest) -> ModelResponse:
            return await self._model.get_response(*changed.arguments(), **changed.conversation)

        run = current_run.get()
        return await (make(request) if run is None else run.model(self._name, request, make))

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: Any,
        handoffs: list[Handoff[Any, Any]],
        tracing: Any,
        **conversation: Any,
    ) -> AsyncIterator[Any]:
        """Yields the events of the answer. The last one is yielded when the answer is recorded."""
        request = ModelCallRequest(
            system_instructions,
            input,
            model_settings,
            tools,
            output_schema,
            handoffs,
            tracing,
            conversation,
        )
        run = current_run.get()
        if run is None:
            async for event in self._model.stream_response(
                *request.arguments(), **request.conversation
            ):
                yield event
            return
        async with contextlib.aclosing(self._events(run, request)) as events:
            async for event in events:
                yield event

    async def _events(self, run: AgentRun, request: ModelCallRequest) -> AsyncGenerator[Any, None]:
        arriving: asyncio.Queue[Any] = asyncio.Queue()
        ends: list[Any] = []

        async def make(changed: ModelCallRequest) -> ModelResponse:
            events = self._model.stream_response(*changed.arguments(), **changed.conversation)
            return await _received(events, arriving, ends)

        recorded = asyncio.ensure_future(run.model(self._name, request, make))
        try:
            while not recorded.done() or not arriving.empty():
                event = asyncio.ensure_future(arriving.get())
                either: set[asyncio.Future[Any]] = {event, recorded}
                try:
                    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                    if not event.done():
                        continue
                finally:
                    event.cancel()
                yield event.result()
            response = streamed(self._name, await recorded)
            # If the lease was lost meanwhile, another execution may have recorded its answer.
            same = bool(ends) and ends[0].response.output == response.output
            yield ends[0] if same else completed(response)
        finally:
            recorded.cancel()
            await asyncio.gather(recorded, return_exceptions=True)

    async def close(self) -> None:
        """Closes the model."""
        await self._model.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._model._cleanup_on_run_end(owner)

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        """Returns the model's own advice."""
        return self._model.get_retry_advice(request)


_ENDS = ("response.completed", "response.incomplete", "response.failed", "error", "response.error")


async def _received(events: Any, arriving: asyncio.Queue[Any], ends: list[Any]) -> ModelResponse:
    """Returns the answer of a stream, whose events it passes on; the last one is put into `ends`.
    Raises StreamFailedError for a stream without an answer.
    """
    ends.clear()
    items: list[Any] = []
    async with contextlib.aclosing(events) as stream:
        async for event in stream:
            kind = getattr(event, "type", "")
            if kind in _ENDS:
                ends.append(event)
                break
            if kind == "response.output_item.done":
                items.append(event.item)
            arriving.put_nowait(event)
    end = ends[0] if ends else None
    if not isinstance(end, ResponseCompletedEvent):
        raise stream_failed(getattr(end, "type", ""))
    if not end.response.output:
        end.response.output = items
    used = end.response.usage
    usage = Usage(requests=1)
    if used is not None:
        usage = Usage(
            requests=1,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            total_tokens=used.total_tokens,
            input_tokens_details=used.input_tokens_details,
            output_tokens_details=used.output_tokens_details,
        )
    return ModelResponse(output=end.response.output, usage=usage, response_id=end.response.id)


class DurableProvider(ModelProvider):
    """A provider whose models' calls are steps of the durable run that the program executes."""

    def __init__(self, provider: ModelProvider) -> None:
        self._provider = provider

    def get_model(self, model_name: str | None) -> Model:
        """Returns the durable form of a model."""
        return DurableModel(self._provider.get_model(model_name), model_name or get_default_model())

    async def aclose(self) -> None:
        """Closes the provider."""
        await self._provider.aclose()
