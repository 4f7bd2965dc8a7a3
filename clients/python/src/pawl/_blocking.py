"""How the blocking client waits and reaches its sidecar; the counterpart of `_awaiting`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from time import sleep
from typing import Any

import grpc

from pawl._settings import Settings

__all__ = ["Line", "called", "closing", "open_channel", "sleep"]


def open_channel(settings: Settings) -> grpc.Channel:
    """A channel. Threads may share it."""
    if settings.tls is None:
        return grpc.insecure_channel(settings.address, settings.options())
    return grpc.secure_channel(settings.address, settings.tls.credentials(), settings.options())


class Line:
    """The channel of a client, open from the beginning: no thread has to be the first."""

    def __init__(self, settings: Settings) -> None:
        self.channel = open_channel(settings)
        """The channel."""

    def close(self) -> None:
        """Ends the calls under way."""
        self.channel.close()


def called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a function of the user returns. Refuses a coroutine, which nothing here would
    ever run."""
    value = function(*arguments)
    if hasattr(value, "__await__"):
        if hasattr(value, "close"):
            value.close()
        raise TypeError("coroutines (a handler, a tool, pieces of a blob) need AsyncClient")
    return value
