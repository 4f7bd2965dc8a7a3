"""Runs handlers within a timeout: coroutines in the event loop, functions in threads."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from pawl_client._errors import HandlerError, RunTerminalError, StepRefusedError, SuspendTurn
from pawl_client._fault import deliberate, text_of
from pawl_client._handlers import ToolEntry, TurnEntry
from pawl_client._leases import LeasedTurn, LeasedWork
from pawl_client._threads import Threads

log = logging.getLogger("pawl_client.worker")

_REFUSED = (StepRefusedError, RunTerminalError)
"""Errors of a call that the sidecar refused: their message says it all."""

_PREVIOUS_SECONDS = 5.0
"""Seconds that an execution of a turn waits for a thread that still executes an earlier one."""


class HandlerRunner:
    """Runs the handlers of a worker. `timeout` is in seconds, None: no bound."""

    def __init__(
        self,
        worker_id: str,
        timeout: float | None,
        on_error: Callable[[BaseException], None] | None,
    ) -> None:
        self._worker_id, self._timeout, self._on_error = worker_id, timeout, on_error
        self._threads = Threads("pawl-handler")
        self._busy: dict[tuple[str, int], Future[_End]] = {}
        """The threads that execute turns, by run and turn. A thread stays here until it ends, also
        after its handler's timeout.
        """

    async def call(self, leased: LeasedWork, handler: TurnEntry | ToolEntry, argument: Any) -> Any:
        """Returns a handler's result. Raises its error, and HandlerError (HANDLER_TIMEOUT,
        HANDLER_ENDED).
        """
        running: asyncio.Future[_End]
        function: Callable[..., Any] = handler.function
        await self._wait_for_previous(leased)
        if handler.in_thread:
            function = self._in_thread(leased, function)
        if handler.is_async:
            running = leased.running = asyncio.create_task(_await(function, argument))
        else:
            running = asyncio.wrap_future(self._start_in_thread(leased, function, argument))
        try:
            done = await _within(running, self._timeout)
        except asyncio.CancelledError:
            running.cancel()  # The worker ends, and its handlers with it.
            raise
        if done:
            return self._value(leased, running)
        running.cancel()
        raise HandlerError(
            f"the handler did not return within {self._timeout} s", reason="HANDLER_TIMEOUT"
        )

    async def _wait_for_previous(self, leased: LeasedWork) -> None:
        """Waits up to `_PREVIOUS_SECONDS` for a thread that still executes an earlier delivery of
        the turn.

        Raises CancelledError if the worker loses the turn in that time.
        """
        if not isinstance(leased, LeasedTurn):
            return
        older = self._busy.get((leased.lease.run_id, leased.lease.turn_seq))
        if older is None:
            return
        await asyncio.wait({asyncio.wrap_future(older)}, timeout=_PREVIOUS_SECONDS)
        if leased.revoked:
            raise asyncio.CancelledError

    def _start_in_thread(
        self, leased: LeasedWork, function: Callable[..., Any], argument: Any
    ) -> Future[_End]:
        """Starts a function in a thread."""
        future = self._threads.run(_call, function, argument)
        if isinstance(leased, LeasedTurn):
            turn = (leased.lease.run_id, leased.lease.turn_seq)
            self._busy[turn] = future

            def finished(_: Future[_End]) -> None:
                if self._busy.get(turn) is future:
                    del self._busy[turn]

            future.add_done_callback(finished)
        return future

    def _in_thread(self, leased: LeasedWork, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a plain function as a coroutine function, which blocks neither other handlers nor
        heartbeats.
        """

        async def call(argument: Any) -> Any:
            end = await asyncio.wrap_future(self._start_in_thread(leased, function, argument))
            if end.error is not None:
                raise end.error
            return await end.value if inspect.isawaitable(end.value) else end.value

        return call

    def _value(self, leased: LeasedWork, running: asyncio.Future[_End]) -> Any:
        """Returns the handler's result, or raises its error in a form that ends only its own
        work.
        """
        end = _End(error=asyncio.CancelledError()) if running.cancelled() else running.result()
        error = end.error
        if error is None:
            return end.value
        if isinstance(error, (Exception, SuspendTurn)):
            raise error
        if isinstance(error, asyncio.CancelledError) and leased.revoked:
            raise error
        # SystemExit, the handler's own cancellation and similar errors would end the worker.
        raise HandlerError(
            f"the handler ended with {type(error).__name__}: {text_of(error)}",
            reason="HANDLER_ENDED",
        ).with_traceback(error.__traceback__)

    def report(self, what: str, error: BaseException) -> None:
        """Logs an error of a handler, with its traceback, and passes it to `on_error`.

        A deliberate error and a refused call of a tool or a model, for example at the end of a
        budget, need none.
        """
        expected = deliberate(error) or isinstance(error, _REFUSED)
        with_trace = not expected or log.isEnabledFor(logging.DEBUG)
        name = type(error).__name__
        log.warning(
            "worker %s: %s: %s: %s",
            self._worker_id,
            what,
            name,
            text_of(error)[:4096],
            exc_info=_loggable(error) if with_trace else None,
        )
        if self._on_error is None:
            return
        try:
            self._on_error(error)
        except Exception:
            log.exception("worker %s: on_error raised an error itself", self._worker_id)

    def close(self) -> None:
        """Ends the threads."""
        self._threads.close()


@dataclass(frozen=True, slots=True)
class _End:
    """How a handler ended, as a value.

    A future cannot hold every exception: with StopIteration, its awaiting task would wait for ever.
    """

    value: Any = None
    error: BaseException | None = None


async def _within(running: asyncio.Future[_End], timeout: float | None) -> bool:
    """Whether the future is done in time. Like `asyncio.wait`, but for one future and cheaper."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def end(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    running.add_done_callback(end)
    timer = None if timeout is None else loop.call_later(timeout, end)
    try:
        await over
    finally:
        running.remove_done_callback(end)
        if timer is not None:
            timer.cancel()
    return running.done()


def _call(function: Callable[..., Any], argument: Any) -> _End:
    try:
        return _End(function(argument))
    except BaseException as error:
        return _End(error=error)


async def _await(function: Callable[..., Any], argument: Any) -> _End:
    try:
        return _End(await function(argument))
    except (KeyboardInterrupt, GeneratorExit):
        raise  # The process or the event loop ends.
    except BaseException as error:
        return _End(error=error)


def _loggable(error: BaseException) -> BaseException | None:
    """Returns the error; None if its __str__ fails, because logging it would fail too."""
    try:
        str(error)
    except Exception:
        return None
    return error
