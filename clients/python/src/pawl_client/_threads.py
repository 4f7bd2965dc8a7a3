"""Threads for blocking handlers."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
_Job: TypeAlias = "tuple[Future[Any], Callable[[], Any]]"


class Threads:
    """Starts threads on demand and reuses them.

    Unlike a ThreadPoolExecutor, it never delays the end of the process, and a function that never
    returns does not reduce the capacity for others. The caller bounds how many run at once.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._closed = False

    def run(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Runs a function in the context of the caller."""
        context, future = contextvars.copy_context(), Future[T]()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        self._jobs.put((future, lambda: context.run(function, *arguments)))
        return future

    def close(self) -> None:
        """Ends the idle threads at once, and busy ones after their function."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, 0
        for _ in range(idle):
            self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            _perform(*job)
            del job
            with self._lock:
                if self._closed:
                    return
                self._idle += 1


def _perform(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
