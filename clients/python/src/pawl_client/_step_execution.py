"""Executes one tool call in a worker."""

from __future__ import annotations

import asyncio

from pawl_client import _schema
from pawl_client._errors import RESULT_INVALID, PawlError, PermissionDeniedError, SchemaError
from pawl_client._fault import refused_result, step_fault_of, text_of
from pawl_client._handler_runner import HandlerRunner
from pawl_client._handlers import Handlers, ToolEntry
from pawl_client._leases import LeasedStep
from pawl_client._turn_requests import resolve_request
from pawl_client._values import Fault, Json
from pawl_client._worker_connection import WorkerConnection
from pawl_client.v1 import worker_pb2


class StepExecution:
    """Executes one tool call and answers the step."""

    def __init__(
        self,
        connection: WorkerConnection,
        handlers: Handlers,
        runner: HandlerRunner,
        leased: LeasedStep,
    ) -> None:
        self._connection, self._handlers, self._runner, self._leased = (
            connection,
            handlers,
            runner,
            leased,
        )

    async def execute(self) -> None:
        """Executes the call. Afterwards the worker can execute another step."""
        leased = self._leased
        try:
            answer = await self._answer()
            if not leased.revoked:
                await self._resolve(answer)
        except asyncio.CancelledError:
            if not leased.revoked:
                raise
        except Exception as error:
            # No answer of a tool may reduce the worker's capacity.
            self._report("its answer", error)
        finally:
            self._connection.steps.pop(leased.lease.token, None)
        if leased.served is None:
            self._connection.credit(0, 1)

    async def _answer(self) -> Json | Fault:
        """Returns the tool's result, or its error as data."""
        name = self._leased.call.tool
        tool = self._handlers.of_tool(name)
        if tool is None:
            return Fault(code="NO_HANDLER", message=f"no handler for tool {name!r}")
        code = "PAYLOAD_INVALID"
        try:
            if tool.parameters is not None:
                _schema.check(self._leased.payload, tool.parameters, f"payload of tool {name}")
            code = ""
            result = await self._call(tool)
            code = RESULT_INVALID
            if tool.result is not None:
                _schema.check(result, tool.result, f"result of tool {name}")
            resolve_request("", "", 1, name, 1, result, "")  # Raises if it has no JSON form.
            return result
        except Exception as error:
            self._report(f"({name})", error)
            if code == RESULT_INVALID:
                self._note(SchemaError(f"tool {name}: {text_of(error)}", reason=code))
                return refused_result(error, code)
            if isinstance(error, SchemaError) and error.reason == RESULT_INVALID:
                self._note(error)
            return step_fault_of(error, code)

    def _note(self, mistake: Exception) -> None:
        if self._leased.served is not None:
            self._leased.served.mistake = mistake

    async def _call(self, tool: ToolEntry) -> Json:
        self._leased.enter()
        return await self._runner.call(self._leased, tool, self._leased.payload)

    async def _resolve(self, answer: Json | Fault) -> None:
        """Answers the step, and repeats the answer while the sidecar asks for it.

        The effect of the tool has happened, and a step without an answer becomes unknown. An answer
        that the sidecar refuses for good is replaced by an error with an unknown effect.
        """
        while True:
            try:
                await self._connection.request(self._leased, lambda: self._request(answer))  # noqa: B023
                return
            except PawlError as error:
                self._report("its answer", error)
                if isinstance(answer, Fault) or isinstance(error, PermissionDeniedError):
                    return
                answer = refused_result(error)

    def _request(self, answer: Json | Fault) -> worker_pb2.WorkRequest:
        lease = self._leased.lease
        return worker_pb2.WorkRequest(
            resolve_step=resolve_request(
                "",
                lease.run_id,
                lease.step,
                lease.tool,
                lease.attempt,
                answer,
                lease.token,
                self._leased.call.usage,
            )
        )

    def _report(self, what: str, error: BaseException) -> None:
        call = self._leased.call
        self._runner.report(f"step {call.step} of {call.run_id}: {what}", error)
