"""The event loop for asynchronous library code that blocking code calls."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of each process; a forked process has its own."""


def in_loop(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Runs a coroutine in the loop. The loop's thread lives as long as the process."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="pawl-models", daemon=True).start()
    return asyncio.run_coroutine_threadsafe(work, loop)
