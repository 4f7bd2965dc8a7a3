"""The execution of one turn by a worker."""

from __future__ import annotations

import asyncio

from pawl_client import _tracing
from pawl_client._errors import (
    FailTurnError,
    HandlerError,
    PawlError,
    RunTerminalError,
    SuspendTurn,
    TurnStaleError,
    TurnTokenError,
)
from pawl_client._fault import fault_of, rejects
from pawl_client._flow import new_id
from pawl_client._handler_runner import Running
from pawl_client._handlers import Handlers
from pawl_client._leases import HeldTurn
from pawl_client._outcomes import Reply, reply_of
from pawl_client._turn_requests import complete_request, fail_request
from pawl_client._values import parts_of
from pawl_client._worker_connection import Link
from pawl_client._worker_turn import ThreadTurn, WorkTurn
from pawl_client.v1 import worker_pb2

_LOST = (TurnStaleError, TurnTokenError, RunTerminalError)


_WRONG = frozenset(
    {
        "UNKNOWN_EVENT",
        "UNDECLARED_ARTIFACT",
        "DUPLICATE_ARTIFACT",
        "ARTIFACT_TYPE",
        "AWAIT_WITH_EVENT",
    }
)
"""Reasons of a completion that is refused for what the program says by name or type."""


def _mistake(error: Exception, completing: bool) -> bool:
    """Whether it is a mistake in the program, which no further attempt mends. `completing`: the
    handler returned, and the sidecar refused its reply."""
    if isinstance(error, HandlerError):
        return error.reason == "BAD_REPLY"
    if isinstance(error, FailTurnError):
        return error.reason == "NO_HANDLER"
    return completing and isinstance(error, PawlError) and error.reason in _WRONG


class TurnExecution:
    """Executes one turn, and tells the sidecar how it ended."""

    def __init__(
        self,
        link: Link,
        handlers: Handlers,
        running: Running,
        held: HeldTurn,
        suspend_after: float | None,
    ) -> None:
        self._link, self._handlers, self._running = link, handlers, running
        self._held, self._suspend_after = held, suspend_after

    async def execute(self) -> None:
        """Executes it; the worker's place for it is free again afterwards."""
        held, credited, completing = self._held, False, False
        try:
            reply = reply_of(await self._handle())
            if not (held.revoked or held.suspended):
                # The credit travels with the completion: one round trip to the next turn.
                credited = not (self._link.stopping or held.served)
                completing = True
                await self._complete(reply, credited)
                if held.served is not None:
                    held.served.completed(held.lease.turn_seq, parts_of(reply.output))
        except asyncio.CancelledError:
            if not held.revoked:
                raise
        except SuspendTurn:
            pass
        except Exception as error:
            # The credit may have been lost with the completion. One too many does no
            # harm: the capacity bounds what is held.
            credited = False
            await self._fail(error, completing)
        finally:
            self._link.turns.pop(held.lease.token, None)
        if not (credited or held.served):
            self._link.credit(1, 0)

    async def _handle(self) -> object:
        handler = self._handlers.of_turn(self._held.info.prompt, self._held.agent)
        _tracing.enter(self._held.traceparent)
        turn = WorkTurn(self._link, self._held, self._suspend_after)
        if handler.awaits:
            return await self._running.call(self._held, handler, turn)
        blocking = ThreadTurn(turn, asyncio.get_running_loop())
        return await self._running.call(self._held, handler, blocking)

    async def _complete(self, reply: Reply, credited: bool) -> None:
        held, request_id = self._held, new_id()
        credit = worker_pb2.WorkCredits(turns=1) if credited else None
        slots = held.info.artifact_slots
        await self._link.ask_turn(
            held,
            lambda: worker_pb2.WorkRequest(
                credits=credit,
                complete_turn=complete_request("", held.ref(), reply, slots, request_id),
            ),
        )

    async def _fail(self, error: Exception, completing: bool) -> None:
        held, request_id = self._held, new_id()
        if held.served is not None:
            if _mistake(error, completing):
                held.served.fail(error)
                return
            if not (held.revoked and isinstance(error, _LOST)):
                held.served.errors.append(error)
        title = f"turn {held.lease.turn_seq} of {held.lease.run_id}"
        self._running.report(title, error)
        if held.revoked or held.suspended:
            return
        fault, retryable = fault_of(error)
        rejected = held.last_answer if retryable and isinstance(error, FailTurnError) else 0
        try:
            await self._link.ask_turn(
                held,
                lambda: worker_pb2.WorkRequest(
                    fail_turn=fail_request(
                        "", held.ref(), fault, retryable, None, request_id, rejects(error), rejected
                    )
                ),
            )
        except (asyncio.CancelledError, *_LOST):
            pass  # It is over already: what the handler raised may have said so.
        except Exception as refused:
            # Nothing that a handler says may cost the worker its place.
            self._running.report(f"the failure of {title}", refused)
