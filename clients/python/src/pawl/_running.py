"""Runs handlers: coroutines in the event loop, functions in threads, within a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from pawl._errors import HandlerError
from pawl._handlers import awaits
from pawl._held import Held
from pawl._threads import Threads

log = logging.getLogger("pawl.worker")


class Running:
    """How the handlers of a worker are run. `timeout` is in seconds, None: no bound."""

    def __init__(
        self,
        worker_id: str,
        timeout: float | None,
        on_error: Callable[[BaseException], None] | None,
    ) -> None:
        self._worker_id, self._timeout, self._on_error = worker_id, timeout, on_error
        self._threads = Threads("pawl-handler")

    async def call(self, held: Held, function: Callable[..., Any], argument: Any) -> Any:
        """What a handler returns. Raises what it raises, and HandlerError (HANDLER_TIMEOUT)."""
        if awaits(function):
            running: asyncio.Future[Any] = asyncio.ensure_future(function(argument))
            held.running = running
        else:
            running = asyncio.wrap_future(self._threads.run(function, argument))
        try:
            done, _ = await asyncio.wait({running}, timeout=self._timeout)
        except asyncio.CancelledError:
            running.cancel()  # The worker ends; its handlers do not outlive it.
            raise
        if done:
            return running.result()
        running.cancel()
        raise HandlerError(
            f"the handler did not return within {self._timeout} s", reason="HANDLER_TIMEOUT"
        )

    def report(self, what: str, error: BaseException) -> None:
        """Tells the worker's owner of an error."""
        log.warning("worker %s: %s: %s: %s", self._worker_id, what, type(error).__name__, error)
        if self._on_error is None:
            return
        try:
            self._on_error(error)
        except Exception:
            log.exception("worker %s: on_error itself failed", self._worker_id)

    def close(self) -> None:
        """Ends the threads."""
        self._threads.close()
