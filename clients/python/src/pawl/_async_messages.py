"""Turns executed by messages; see `pawl.anthropic`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anthropic as sdk

from pawl._async_executor import AsyncModelHandler
from pawl._messages_dialect import MessagesDialect


class AsyncMessagesHandler(AsyncModelHandler):
    """A turn handler for AsyncClient and workers.

    `client` holds the endpoint, the key, and how often the package itself repeats
    (`max_retries`). The rest is as for `AsyncModelHandler`.

    The codes are those of `pawl.openai.AsyncChatHandler`. `max_tokens` is 4096 where the pack
    says nothing.
    """

    def __init__(
        self,
        client: sdk.AsyncAnthropic,
        *,
        model: str,
        max_rounds: int = 16,
        chat: bool | None = None,
        response_schema: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            client,
            MessagesDialect(),
            model=model,
            max_rounds=max_rounds,
            chat=chat,
            response_schema=response_schema,
            extra=extra,
        )
