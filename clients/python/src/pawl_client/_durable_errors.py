"""Errors of agents that run durably; the adapters of agent libraries raise them."""

from __future__ import annotations

from collections.abc import Sequence

from pawl_client._enums import RunStatus
from pawl_client._errors import PawlError
from pawl_client._values import Fault, Json


class DurableRunError(PawlError):
    """The durable run has ended without a result: a limit, a failure, a person or a cancellation.

    `run_id` is the run, `status` how it ended, and `reason` why, for example "max_tool_calls". The
    same `request_id` gives the same error. Give another one to start again.
    """

    def __init__(self, message: str, *, run_id: str, status: RunStatus, reason: str) -> None:
        super().__init__(message, reason=reason)
        self.run_id = run_id
        self.status = status


class RunChangedError(PawlError):
    """The program is not the one that began the run, so the run cannot continue with it.

    `tools` names the tools whose parameters changed, or that are missing. Continue the run with the
    program that began it, or give another `request_id`.
    """

    def __init__(self, message: str, *, run_id: str, tools: Sequence[str] = ()) -> None:
        super().__init__(message, reason="RUN_CHANGED")
        self.run_id = run_id
        self.tools = tuple(tools)


class ToolChangedWarning(UserWarning):
    """The code of tools changed since the run began. The message names them; the run continues."""


class LibraryVersionError(RunChangedError):
    """A recorded value was written by a version of the agent library whose values this one cannot
    read. Continue the run with the recorded version.
    """


class DuplicateAgentError(PawlError):
    """Two agents of this process have one name, but different tools or limits. Rename one."""


class ThreadInUseError(PawlError):
    """Another graph uses the thread's id. Give each graph threads of its own."""


class ThreadEndedError(PawlError):
    """The run that keeps the thread has ended, for example on the web page. `delete_thread` deletes
    it; the next call begins the thread again.
    """


class DuplicateToolError(PawlError):
    """Two agents of one run have a tool of one name, but with different parameters. Rename one."""


class NotDurableError(PawlError):
    """An agent has a part whose calls cannot be recorded. The message names the part."""


class NestedAgentError(PawlError):
    """A tool of a durable agent ran another durable agent, whose calls would not be recorded.

    Give the inner run a `request_id` of its own, for example `current_call().idempotency_key`.
    """


class NotSerializableError(PawlError):
    """A tool returned a value without a JSON form, so its result cannot be recorded. The call was
    made. Return JSON types, dataclasses or pydantic models.
    """


def unreadable_by(
    library: str, version: str, run_id: str, envelope: Json, why: str
) -> LibraryVersionError:
    """Returns the error of a recorded value that this version of a library cannot read."""
    known = envelope if isinstance(envelope, dict) else {}
    return LibraryVersionError(
        f"run {run_id}: a record of {known.get('library', 'another library')} "
        f"{known.get('version', '')} cannot be read by {library} {version}: {why}; "
        "continue the run with the version that began it, or give another request_id",
        run_id=run_id,
    )


class ModelCallError(Exception):
    """A model call that has finally failed, as it is recorded."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.code}: {fault.message}")
        self.fault = fault


def ended_error(
    run_id: str,
    status: RunStatus,
    reason: str,
    errors: Sequence[BaseException] = (),
    *,
    text: str = "",
) -> DurableRunError:
    """Returns the error of a run that has ended without a result."""
    about = text or (str(errors[-1]) if errors else "")
    message = f"run {run_id} ended {status} ({reason}){': ' + about if about else ''}"
    return DurableRunError(message, run_id=run_id, status=status, reason=reason)
