"""Executes one turn in a worker."""

from __future__ import annotations

import asyncio
import contextlib

from pawl_client import _tracing
from pawl_client._errors import (
    INVALID_ARGUMENTS,
    RESULT_INVALID,
    FailTurnError,
    HandlerError,
    InvalidJsonError,
    PawlError,
    RunTerminalError,
    SchemaError,
    StepFailedError,
    StepRefusedError,
    SuspendTurn,
    TurnStaleError,
    TurnTokenError,
)
from pawl_client._fault import fault_of, rejects
from pawl_client._flow import new_id
from pawl_client._handler_runner import HandlerRunner
from pawl_client._handlers import Handlers
from pawl_client._leases import LeasedTurn
from pawl_client._outcomes import Reply, check_reply, reply_of
from pawl_client._turn_requests import complete_request, fail_request
from pawl_client._values import parts_of
from pawl_client._worker_connection import WorkerConnection
from pawl_client._worker_turn import ThreadTurn, WorkerTurn
from pawl_client.v1 import worker_pb2

_TURN_ENDED = (TurnStaleError, TurnTokenError, RunTerminalError)


_REFUSALS = frozenset({"TOOL_NOT_ALLOWED", "TOOL_NOT_LISTED", "TOOL_BLOCKED", "PAYLOAD_INVALID"})
"""Reasons of a refused call that another attempt of the turn gets again."""

_REPLY_MISTAKES = frozenset(
    {
        "UNKNOWN_EVENT",
        "UNDECLARED_ARTIFACT",
        "DUPLICATE_ARTIFACT",
        "ARTIFACT_TYPE",
        "AWAIT_WITH_EVENT",
    }
)
"""Reasons of a refused completion whose names or types are wrong in the program."""


def _is_mistake(error: Exception, completing: bool, leased: LeasedTurn) -> bool:
    """Whether the error is a mistake in the program, so that further attempts fail too.

    `completing`: the handler returned, and the sidecar refused its reply.
    """
    # The payload of a call by the handler itself, not by its model, does not fit.
    if error is leased.step_error and isinstance(error, (SchemaError, InvalidJsonError)):
        return True
    if isinstance(error, HandlerError):
        return error.reason in ("BAD_REPLY", "NO_HANDLER")
    if isinstance(error, StepRefusedError):
        return error.reason in _REFUSALS
    if isinstance(error, FailTurnError):
        return error.reason == "NO_HANDLER"
    if isinstance(error, PawlError) and error.reason == "MODEL_UNPRICED":
        return True
    if not completing:
        return False
    # A value of the reply has no JSON form, or is of a wrong type.
    if isinstance(error, (InvalidJsonError, TypeError, ValueError, AttributeError)):
        return True
    return isinstance(error, PawlError) and error.reason in _REPLY_MISTAKES


class TurnExecution:
    """Executes one turn and reports its end to the sidecar."""

    def __init__(
        self,
        connection: WorkerConnection,
        handlers: Handlers,
        runner: HandlerRunner,
        leased: LeasedTurn,
        suspend_after: float | None,
    ) -> None:
        self._connection, self._handlers, self._runner = connection, handlers, runner
        self._leased, self._suspend_after = leased, suspend_after

    async def execute(self) -> None:
        """Executes the turn. Afterwards the worker can execute another one."""
        leased, credited, completing = self._leased, False, False
        try:
            reply = reply_of(await self._handle())
            if not (leased.revoked or leased.suspended):
                # The credit travels with the completion: one round trip to the next turn.
                credited = not (self._connection.stopping or leased.served)
                completing = True
                await self._complete(reply, credited)
                if leased.served is not None:
                    leased.served.completed(leased.lease.turn_seq, parts_of(reply.output))
        except asyncio.CancelledError:
            if not leased.revoked:
                raise
        except SuspendTurn:
            pass
        except Exception as error:
            # The credit may have been lost with the completion. An additional credit does no
            # harm, because the capacity bounds the number of held turns.
            credited = False
            await self._fail(error, completing)
        finally:
            self._connection.turns.pop(leased.lease.token, None)
        if not (credited or leased.served):
            self._connection.credit(1, 0)

    async def _handle(self) -> object:
        handler = self._handlers.of_turn(self._leased.info.prompt, self._leased.agent)
        _tracing.enter(self._leased.traceparent)
        turn = WorkerTurn(self._connection, self._leased, self._suspend_after)
        if handler.is_async:
            return await self._runner.call(self._leased, handler, turn)
        blocking = ThreadTurn(turn, asyncio.get_running_loop())
        return await self._runner.call(self._leased, handler, blocking)

    async def _complete(self, reply: Reply, credited: bool) -> None:
        check_reply(reply)
        leased, request_id = self._leased, new_id()
        credit = worker_pb2.WorkCredits(turns=1) if credited else None
        slots = leased.info.artifact_slots
        await self._connection.request_for_turn(
            leased,
            lambda: worker_pb2.WorkRequest(
                credits=credit,
                complete_turn=complete_request("", leased.ref(), reply, slots, request_id),
            ),
        )

    def _named(self, error: Exception) -> Exception:
        """Returns the error of a mistake, with the handler's name in its message."""
        prompt, entry = self._leased.info.prompt, None
        with contextlib.suppress(FailTurnError):
            entry = self._handlers.of_turn(prompt, self._leased.agent)
        if entry is not None and isinstance(error, PawlError):
            error.message = f"handler {entry.name} of prompt {prompt}: {error.message}"
            error.args = (error.message,)
        return error

    async def _fail(self, error: Exception, completing: bool) -> None:
        leased, request_id = self._leased, new_id()
        if leased.served is not None:
            if _is_mistake(error, completing, leased):
                leased.served.fail(self._named(error))
                return
            failed = error.reason if isinstance(error, StepFailedError) else ""
            if error is leased.step_error and failed == INVALID_ARGUMENTS:
                # The tool's function does not accept the payload.
                leased.served.mistake = self._named(error)
            wrong = leased.served.mistake
            if failed == RESULT_INVALID and wrong is not None:
                leased.served.fail(wrong)
                return
            if not (leased.revoked and isinstance(error, _TURN_ENDED)):
                leased.served.errors.append(error)
        elif isinstance(error, HandlerError):
            error = self._named(error)
        title = f"turn {leased.lease.turn_seq} of {leased.lease.run_id}"
        self._runner.report(title, error)
        if leased.revoked or leased.suspended:
            return
        fault, retryable = fault_of(error)
        rejected = leased.last_answer if retryable and isinstance(error, FailTurnError) else 0
        try:
            await self._connection.request_for_turn(
                leased,
                lambda: worker_pb2.WorkRequest(
                    fail_turn=fail_request(
                        "",
                        leased.ref(),
                        fault,
                        retryable,
                        None,
                        request_id,
                        rejects(error),
                        rejected,
                    )
                ),
            )
        except (asyncio.CancelledError, *_TURN_ENDED):
            pass  # The turn is over already; the handler's own error may have been that.
        except Exception as refused:
            # No answer of a handler may reduce the worker's capacity.
            self._runner.report(f"the failure of {title}", refused)
