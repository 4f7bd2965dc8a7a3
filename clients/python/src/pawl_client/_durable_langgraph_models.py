"""Chat models of LangChain whose calls are steps of a durable run."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import (
    Runnable,
    RunnableAssign,
    RunnableBinding,
    RunnableConfig,
    RunnableMap,
    RunnableSequence,
)

from pawl_client._durable_errors import NotDurableError
from pawl_client._durable_langgraph_run import (
    DURABLE,
    Blocking,
    GraphRun,
    ModelCallRequest,
    StreamBrokenError,
    check_loop,
    current_run,
)
from pawl_client._json_text import dump_json


class DurableChatModel(BaseChatModel):
    """A chat model whose calls are steps of the durable run that the graph executes."""

    inner: BaseChatModel
    """The program's own model."""

    @classmethod
    def of(cls, model: BaseChatModel) -> DurableChatModel:
        """Returns the durable form of a model."""
        return cls(
            inner=model,
            cache=False,
            metadata={**(model.metadata or {}), DURABLE: True},
            tags=model.tags,
            disable_streaming=model.disable_streaming,
            output_version=model.output_version,
            profile=model.profile,
        )

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type

    def _get_ls_params(self, stop: list[str] | None = None, **options: Any) -> Any:
        return self.inner._get_ls_params(stop=stop, **options)

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Returns the name of the program's own model."""
        return self.inner.get_name(suffix, name=name)

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, AIMessage]:
        """Returns the model with tools, in the form of the program's own model."""
        return rebound(self.inner.bind_tools(tools, **options), self)

    def with_structured_output(self, schema: Any, **options: Any) -> Runnable[Any, Any]:
        """Returns the model with a structured output, as the program's own model makes it."""
        return rebound(self.inner.with_structured_output(schema, **options), self)

    def _request(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> ModelCallRequest:
        about: Any = self.inner._get_ls_params(stop=stop, **options)
        most = options.get("max_tokens") or about.get("ls_max_tokens") or 0
        return ModelCallRequest(
            model=str(about.get("ls_model_name") or type(self.inner).__name__),
            messages=messages,
            stop=stop,
            options=options,
            most=int(most),
        )

    # Whole answers

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        found = current_run()
        if found is None:
            return self.inner._generate_with_cache(messages, stop, run_manager, **options)

        def make(request: ModelCallRequest) -> AIMessage:
            result = self.inner._generate_with_cache(
                request.messages, request.stop, None, **request.options
            )
            return _only(result)

        call = self._blocking(found, self._request(messages, stop, options))
        for wanted in call:
            wanted.do(make)
        return _result(call.result())

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        found = current_run()
        if found is None:
            return await self.inner._agenerate_with_cache(messages, stop, run_manager, **options)

        async def make(request: ModelCallRequest) -> AIMessage:
            result = await self.inner._agenerate_with_cache(
                request.messages, request.stop, None, **request.options
            )
            return _only(result)

        run, config = found
        check_loop(run)
        request, ordered = self._request(messages, stop, options), run.ordered(config)
        return _result(await run.model(request, config, make, ordered=ordered))

    def _blocking(
        self, found: tuple[GraphRun, RunnableConfig], request: ModelCallRequest
    ) -> Blocking:
        run, config = found
        ordered = run.ordered(config)
        return Blocking(run, lambda make: run.model(request, config, make, ordered=ordered))

    # Streams

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> Iterator[ChatGenerationChunk]:
        found = current_run()
        streams = type(self.inner)._stream is not BaseChatModel._stream
        if found is None and streams:
            yield from self.inner._stream(messages, stop, run_manager, **options)
            return
        if found is None or not streams:
            yield _chunk(_only(self._generate(messages, stop, run_manager, **options)))
            return
        call = self._blocking(found, self._request(messages, stop, options))
        arrived = _Arrived()
        try:
            for wanted in call:
                request: ModelCallRequest = wanted.argument
                try:
                    if self.inner.rate_limiter is not None:
                        self.inner.rate_limiter.acquire(blocking=True)
                    for chunk in self.inner._stream(
                        request.messages, request.stop, **request.options
                    ):
                        yield arrived.take(chunk)
                    wanted.give(arrived.message())
                except Exception as error:
                    wanted.fail(arrived.failure(error))
            recorded = call.result()
        finally:
            call.cancel()
        yield arrived.rest(recorded)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        found = current_run()
        streams = (
            type(self.inner)._stream is not BaseChatModel._stream
            or type(self.inner)._astream is not BaseChatModel._astream
        )
        if found is None and streams:
            async for chunk in self.inner._astream(messages, stop, run_manager, **options):
                yield chunk
            return
        if found is None or not streams:
            yield _chunk(_only(await self._agenerate(messages, stop, run_manager, **options)))
            return
        run, config = found
        check_loop(run)
        arriving: asyncio.Queue[ChatGenerationChunk] = asyncio.Queue()
        arrived = _Arrived()

        async def make(request: ModelCallRequest) -> AIMessage:
            try:
                if self.inner.rate_limiter is not None:
                    await self.inner.rate_limiter.aacquire(blocking=True)
                chunks = self.inner._astream(request.messages, request.stop, **request.options)
                async with contextlib.aclosing(chunks) as stream:  # type: ignore[type-var]
                    async for chunk in stream:
                        arriving.put_nowait(arrived.take(chunk))
            except Exception as error:
                raise arrived.failure(error) from None
            return arrived.message()

        request, ordered = self._request(messages, stop, options), run.ordered(config)
        answer = asyncio.ensure_future(run.model(request, config, make, ordered=ordered))
        try:
            while not answer.done() or not arriving.empty():
                if (following := await _next(arriving, answer)) is not None:
                    yield following
            recorded = await answer
        finally:
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)
        yield arrived.rest(recorded)


async def _next(
    arriving: asyncio.Queue[ChatGenerationChunk], answer: asyncio.Future[AIMessage]
) -> ChatGenerationChunk | None:
    """Returns the next chunk. None means that the answer is complete."""
    following = asyncio.ensure_future(arriving.get())
    either: set[asyncio.Future[Any]] = {following, answer}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return following.result() if following.done() else None
    finally:
        following.cancel()


class _Arrived:
    """The chunks of a stream, which the caller has already used."""

    def __init__(self) -> None:
        self._whole: AIMessageChunk | None = None
        self._id = _new_id()

    def take(self, chunk: ChatGenerationChunk) -> ChatGenerationChunk:
        """Adds a chunk and returns it."""
        message = chunk.message
        assert isinstance(message, AIMessageChunk)  # noqa: S101
        message.id = message.id or self._id
        message.response_metadata = {
            **(chunk.generation_info or {}),
            **message.response_metadata,
        }
        self._whole = message.model_copy() if self._whole is None else self._whole + message
        return chunk

    def message(self) -> AIMessage:
        """Returns the whole answer."""
        if self._whole is None:
            raise ValueError("the model's stream has no chunk")
        message = message_chunk_to_message(self._whole)
        assert isinstance(message, AIMessage)  # noqa: S101
        return message

    def failure(self, error: Exception) -> Exception:
        """Returns the error of a stream that failed: it is not repeated after its first chunk."""
        return error if self._whole is None else StreamBrokenError(error)

    def rest(self, recorded: AIMessage) -> ChatGenerationChunk:
        """Returns the last chunk: the recorded answer, or nothing if the caller has it already."""
        if self._whole is None:
            return _chunk(recorded)
        empty: Any = "" if isinstance(self._whole.content, str) else []
        last = AIMessageChunk(content=empty, id=self._whole.id, chunk_position="last")
        return ChatGenerationChunk(message=last)


def _new_id() -> str:
    return f"run-{uuid.uuid4()}"


def _only(result: ChatResult) -> AIMessage:
    message = result.generations[0].message
    if not isinstance(message, AIMessage):
        raise TypeError(f"the model answered with a {type(message).__name__}, not an AIMessage")
    message.id = message.id or _new_id()
    return message


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunk(message: AIMessage) -> ChatGenerationChunk:
    """Returns a whole answer as the only chunk of a stream."""
    given = message.model_dump(exclude={"type", "tool_calls", "invalid_tool_calls"})
    calls: list[Any] = [
        {
            "name": call["name"],
            "args": dump_json(call["args"], "arguments"),
            "id": call["id"],
            "index": index,
            "type": "tool_call_chunk",
        }
        for index, call in enumerate(message.tool_calls)
    ]
    calls += [
        {**call, "index": len(calls) + index, "type": "tool_call_chunk"}
        for index, call in enumerate(message.invalid_tool_calls)
    ]
    chunk = AIMessageChunk(**given, tool_call_chunks=calls, chunk_position="last")
    return ChatGenerationChunk(message=chunk)


def rebound(runnable: Any, model: DurableChatModel) -> Runnable[Any, Any]:
    """Returns a runnable that was made of the model's inner one, with the durable one in its place.

    Raises NotDurableError for a runnable of another kind.
    """
    if runnable is model.inner:
        return model
    if isinstance(runnable, RunnableBinding):
        return runnable.model_copy(update={"bound": rebound(runnable.bound, model)})
    if isinstance(runnable, RunnableSequence):
        steps = [rebound(step, model) if _has_model(step) else step for step in runnable.steps]
        return RunnableSequence(*steps)
    if isinstance(runnable, RunnableAssign):
        return RunnableAssign(mapper=rebound(runnable.mapper, model))  # type: ignore[arg-type]
    if isinstance(runnable, RunnableMap):
        return RunnableMap(
            {
                name: rebound(step, model) if _has_model(step) else step
                for name, step in runnable.steps__.items()
            }
        )
    raise NotDurableError(
        f"a {type(runnable).__name__} cannot be durable: make the chat model durable, and then "
        "build the runnable of it",
        reason="NOT_DURABLE",
    )


def inner_model(runnable: Any) -> BaseChatModel | None:
    """Returns the chat model that a binding has. None means that it has none."""
    while isinstance(runnable, RunnableBinding):
        runnable = runnable.bound
    return runnable if isinstance(runnable, BaseChatModel) else None


def _has_model(runnable: Any) -> bool:
    if isinstance(runnable, RunnableSequence):
        return any(map(_has_model, runnable.steps))
    if isinstance(runnable, RunnableMap):
        return any(map(_has_model, runnable.steps__.values()))
    if isinstance(runnable, RunnableAssign):
        return _has_model(runnable.mapper)
    return inner_model(runnable) is not None
