"""Turns executed by any OpenAI-compatible endpoint; needs `pip install 'pawl-sidecar[openai]'`.

    from openai import OpenAI
    from pawl import Client
    from pawl.openai import ChatHandler

    handler = ChatHandler(OpenAI(), model="gpt-5-mini")
    with Client() as client:
        client.run("my-pack", handler, tools={"run_tests": run_tests})

A handler is for `Client.run` and for workers alike. The model gets the rendered system
prompt, the conversation and the prompt's tools, each of which is a durable step. It
leaves the state by calling one function whose enum is the state's allowed events and
whose arguments carry the artifacts; nothing else can move the run.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import openai as sdk

from pawl._errors import FailTurnError, SchemaError, StepDeniedError, StepFailedError
from pawl._exchange import Exchange
from pawl._outcomes import Reply
from pawl._turn_view import AsyncTurn, Turn

if TYPE_CHECKING:
    from pawl._turn_view import TurnView

__all__ = ["AsyncChatHandler", "ChatHandler"]

_TOLD = (SchemaError, StepDeniedError, StepFailedError)


class _Settings:
    def __init__(self, *, model: str, max_rounds: int) -> None:
        if not model:
            raise ValueError("model: a name, not empty")
        if max_rounds < 1:
            raise ValueError(f"max_rounds: 1 or more, not {max_rounds}")
        self._model, self._max_rounds = model, max_rounds

    def _exchange(self, turn: TurnView) -> Exchange:
        policy = (turn.settings or {}).get("tool_policy") or {}
        rounds = min(self._max_rounds, policy.get("max_rounds") or self._max_rounds)
        # The last round is for leaving the state.
        return Exchange(turn, model=self._model, max_rounds=rounds + 1)


class ChatHandler(_Settings):
    """A turn handler that blocks. Safe to share between threads.

    `client` holds the endpoint, the key, and how often the package itself repeats
    (`max_retries`). `max_rounds` bounds the answers of one turn (default 16); the pack's
    tool_policy.max_rounds may lower it.

    A turn fails with one of these codes: REFUSED, CONTENT_FILTER, TRUNCATED,
    STREAM_TRUNCATED, MAX_ROUNDS, MODEL_RATE_LIMITED, MODEL_UNREACHABLE, and
    MODEL_<HTTP status>, which is retryable from 500 on.
    """

    def __init__(self, client: sdk.OpenAI, *, model: str, max_rounds: int = 16) -> None:
        super().__init__(model=model, max_rounds=max_rounds)
        self._client = client

    def __call__(self, turn: Turn) -> Reply:
        """Executes one turn."""
        exchange = self._exchange(turn)
        create: Callable[..., Any] = self._client.chat.completions.create
        while exchange.reply is None:
            request = exchange.request()
            try:
                with create(**request) as stream:
                    for chunk in _pieces(stream):
                        text = exchange.take(chunk)
                        if text:
                            turn.output(text)
            except sdk.OpenAIError as error:
                raise _failure(error) from error
            for call in exchange.finish():
                try:
                    exchange.answered(call, turn.step(call.tool, call.arguments, key=call.key))
                except _TOLD as error:
                    exchange.refused(call, error)
        return exchange.reply


class AsyncChatHandler(_Settings):
    """A turn handler for AsyncClient and workers; see `ChatHandler`.

    With a worker: `worker.prompt("coder")(AsyncChatHandler(...))`.
    """

    def __init__(self, client: sdk.AsyncOpenAI, *, model: str, max_rounds: int = 16) -> None:
        super().__init__(model=model, max_rounds=max_rounds)
        self._client = client

    async def __call__(self, turn: AsyncTurn) -> Reply:
        """Executes one turn."""
        exchange = self._exchange(turn)
        create: Callable[..., Any] = self._client.chat.completions.create
        while exchange.reply is None:
            request = exchange.request()
            try:
                async with await create(**request) as stream:
                    async for chunk in _async_pieces(stream):
                        text = exchange.take(chunk)
                        if text:
                            await turn.output(text)
            except sdk.OpenAIError as error:
                raise _failure(error) from error
            for call in exchange.finish():
                try:
                    result = await turn.step(call.tool, call.arguments, key=call.key)
                    exchange.answered(call, result)
                except _TOLD as error:
                    exchange.refused(call, error)
        return exchange.reply


def _pieces(stream: Iterable[Any]) -> Iterator[Any]:
    """The pieces of a stream; whatever breaks it, the package's HTTP library included,
    fails the turn."""
    try:
        yield from stream
    except Exception as error:
        raise _broken(error) from error


async def _async_pieces(stream: AsyncIterable[Any]) -> AsyncIterator[Any]:
    try:
        async for chunk in stream:
            yield chunk
    except Exception as error:
        raise _broken(error) from error


def _broken(error: Exception) -> FailTurnError:
    if isinstance(error, sdk.APIStatusError):
        return _failure(error)
    return FailTurnError("STREAM_TRUNCATED", f"{type(error).__name__}: {error}")


def _failure(error: sdk.OpenAIError) -> FailTurnError:
    """What an error of the endpoint says of the turn."""
    if isinstance(error, sdk.RateLimitError):
        return FailTurnError("MODEL_RATE_LIMITED", str(error))
    if isinstance(error, sdk.APIStatusError):
        code = error.status_code
        return FailTurnError(f"MODEL_{code}", str(error), retryable=code >= 500)
    if isinstance(error, sdk.APIConnectionError):
        return FailTurnError("MODEL_UNREACHABLE", str(error))
    return FailTurnError("MODEL_ERROR", str(error))
