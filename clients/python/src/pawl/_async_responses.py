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
    (`store=False`), unless with `background`: then a response is made whoever listens, and after
    a loss it is fetched by its id instead of being paid again.
    """

    def __init__(
        self,
        client: sdk.AsyncOpenAI,
        *,
        model: str,
        max_rounds: int = 16,
        chat: bool | None = None,
        response_schema: Mapping[str, Any] | None = None,
        background: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        given = dict(extra or {})
        for name in ("background", "store") if background else ("background",):
            if name in given:
                raise ValueError(f"extra.{name}: it is said by background={background}")
        if background:
            given["background"] = True
        super().__init__(
            client,
            ResponsesDialect(),
            model=model,
            max_rounds=max_rounds,
            chat=chat,
            response_schema=response_schema,
            extra=given,
        )
