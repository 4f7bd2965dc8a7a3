"""Turns executed by chat completions; see `pawl.openai`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openai as sdk

from pawl._async_executor import AsyncModelHandler
from pawl._chat_dialect import ChatDialect


class AsyncChatHandler(AsyncModelHandler):
    """A turn handler for AsyncClient and workers.

    `client` holds the endpoint, the key, and how often the package itself repeats
    (`max_retries`). The rest is as for `AsyncModelHandler`.

    A call of the model that fails is made again as the pack says (`model_calls.retry`), by these
    codes: REFUSED, CONTENT_FILTER, TRUNCATED, STREAM_TRUNCATED, MODEL_RATE_LIMITED,
    MODEL_UNREACHABLE, MODEL_TIMEOUT, MODEL_ERROR, ANSWER_INVALID, MODEL_<HTTP status>; below
    500 it fails the turn for good, but for 408, 409, 425 and 429. So do MEDIA_UNSUPPORTED,
    PARAMETER_UNSUPPORTED, OVERRIDE_UNSUPPORTED and ANSWER_TOO_LARGE; MAX_ROUNDS fails its
    attempt.
    """

    def __init__(
        self,
        client: sdk.AsyncOpenAI,
        *,
        model: str,
        max_rounds: int = 16,
        chat: bool | None = None,
        response_schema: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            client,
            ChatDialect(),
            model=model,
            max_rounds=max_rounds,
            chat=chat,
            response_schema=response_schema,
            extra=extra,
        )
