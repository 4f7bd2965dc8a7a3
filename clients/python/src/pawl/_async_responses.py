"""Turns executed by responses; see `pawl.openai`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openai as sdk

from pawl._async_executor import AsyncModelHandler
from pawl._responses_dialect import ResponsesDialect


class AsyncResponsesHandler(AsyncModelHandler):
    """A turn handler for AsyncClient and workers.

    `client` holds the endpoint, the key, and how often the package itself repeats
    (`max_retries`). The rest is as for `AsyncModelHandler`.

    The codes are those of `AsyncChatHandler`. Nothing is stored at the provider's
    (`store=False`).
    """

    def __init__(
        self,
        client: sdk.AsyncOpenAI,
        *,
        model: str,
        max_rounds: int = 16,
        chat: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            client, ResponsesDialect(), model=model, max_rounds=max_rounds, chat=chat, extra=extra
        )
