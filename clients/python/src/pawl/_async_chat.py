"""Turns executed by a chat model; see `pawl.openai`."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import openai as sdk

from pawl._async_turn import AsyncTurn
from pawl._chat_model import TOLD, ChatSettings, broken, failure
from pawl._outcomes import Reply


class AsyncChatHandler(ChatSettings):
    """A turn handler for AsyncClient and workers.

    `client` holds the endpoint, the key, and how often the package itself repeats
    (`max_retries`). `max_rounds` bounds the answers of one turn (default 16); the pack's
    tool_policy.max_rounds may lower it.

    A turn fails with one of these codes: REFUSED, CONTENT_FILTER, TRUNCATED,
    STREAM_TRUNCATED, MAX_ROUNDS, MODEL_RATE_LIMITED, MODEL_UNREACHABLE, and
    MODEL_<HTTP status>, which is retryable from 500 on.
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
                    async for chunk in _pieces(stream):
                        text = exchange.take(chunk)
                        if text:
                            await turn.output(text)
            except sdk.OpenAIError as error:
                raise failure(error) from error
            for call in exchange.finish():
                try:
                    result = await turn.step(call.tool, call.arguments, key=call.key)
                    exchange.answered(call, result)
                except TOLD as error:
                    exchange.refused(call, error)
        return exchange.reply


async def _pieces(stream: AsyncIterable[Any]) -> AsyncIterator[Any]:
    try:
        async for chunk in stream:
            yield chunk
    except Exception as error:
        raise broken(error) from error
