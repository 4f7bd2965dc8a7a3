"""The readable part of a turn, and the meaning of answers to its steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Generic

from pawl_client import _schema
from pawl_client._enums import StepStatus
from pawl_client._errors import (
    LimitError,
    SchemaError,
    StepCancelledError,
    StepDeniedError,
    StepFailedError,
    StepRefusedError,
)
from pawl_client._runs import ArtifactSlot, PackRef, Step, StepOutcome, ToolSpec, TurnInfo
from pawl_client._turn_requests import StepCall
from pawl_client._types import ReadT
from pawl_client._values import Json, Message, OutputPiece, Part, plain


class TurnView(Generic[ReadT]):
    """The readable part of a turn."""

    def __init__(self, info: TurnInfo, *, agent: str = "", labels: Mapping[str, str] | None = None):
        self.info = info
        """All fields of the turn, as the sidecar returned them."""
        self.agent = agent
        """Member key of an agent's run that a worker executes; else empty."""
        self.labels = dict(labels or {})
        """Labels of the run, if a worker executes the turn; else empty."""
        self._ordinals = itertools.count(1)

    def __repr__(self) -> str:
        turn = self.info.turn
        return f"<turn {turn.turn_seq} of {turn.run_id}: {turn.state}, attempt {turn.attempt}>"

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.info.turn.run_id

    @property
    def state(self) -> str:
        """The visited state."""
        return self.info.turn.state

    @property
    def visit(self) -> int:
        """Number of this visit of the state, from 1."""
        return self.info.turn.visit

    @property
    def attempt(self) -> int:
        """Execution attempt, from 1; only failed executions increase it."""
        return self.info.turn.attempt

    @property
    def pack(self) -> PackRef:
        """Pack of the run."""
        return self.info.pack

    @property
    def prompt(self) -> str:
        """Key of the prompt."""
        return self.info.prompt

    @property
    def system_prompt(self) -> str:
        """The prompt's template, rendered."""
        return self.info.system_prompt

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation that the turn sees, oldest first."""
        return self.info.messages

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Tools that the prompt lists."""
        return self.info.tools

    @property
    def allowed_events(self) -> tuple[str, ...]:
        """The events that move the run out of this state."""
        return self.info.allowed_events

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps of this visit so far, with their answers."""
        return self.info.steps

    @property
    def artifact_slots(self) -> tuple[ArtifactSlot, ...]:
        """Artifacts that the state declares."""
        return self.info.artifact_slots

    @property
    def variables(self) -> ReadT:
        """The run's variables, defaults applied."""
        variables: ReadT = self.info.variables
        return variables

    @property
    def settings(self) -> Json:
        """The pack's settings for the executor: parameters, validators, ..."""
        return self.info.settings

    @property
    def terminal(self) -> bool:
        """True means that completing this turn ends the run."""
        return self.info.terminal

    @property
    def deadline(self) -> datetime | None:
        """When the run's wall time ends. None means that it is not bounded."""
        return self.info.deadline

    def _keyed(self, call: StepCall) -> StepCall:
        """Returns the call with its key, which it keeps in every repeated request.

        The key is fixed before the first request. Otherwise the following calls would get other
        keys in the next execution, and would be made again.
        """
        if call.call is not None:
            return call
        ordinal = next(self._ordinals)
        return replace(call, key=call.key or _default_key(self.info, ordinal))

    def check_payload(self, tool: str, payload: Json) -> None:
        """Raises SchemaError if the payload does not fit the tool's JSON Schema."""
        for spec in self.tools:
            if spec.name == tool and spec.parameters is not None:
                _schema.check(payload, spec.parameters, f"payload of tool {tool}")


def payload_of(tool: str, given: object) -> dict[str, Json]:
    """Returns the payload of `Turn.step` as a new mapping; None is an empty one.

    Raises SchemaError for any other value than a mapping or an instance of a model or a dataclass.
    """
    payload = {} if given is None else plain(given)
    if not isinstance(payload, Mapping):
        raise SchemaError(
            f"payload of tool {tool}: must be a mapping, or an instance of a pydantic model or a "
            f"dataclass, not {type(given).__name__}"
        )
    return dict(payload)


def next_piece(text: str, *, first: bool) -> OutputPiece:
    """Returns a durable piece of `Turn.output`. The first one replaces the output of an earlier
    execution.
    """
    return OutputPiece(id="output", parts=(Part(text=text),), append=not first)


def _default_key(info: TurnInfo, ordinal: int) -> str:
    """Returns the key of the turn's n-th call, from 1, in the server's form.

    The client makes the key, so that it does not depend on the memory of a restarted server.
    """
    first = info.turn.turn_seq == info.visit_seq
    return str(ordinal) if first else f"{info.turn.turn_seq}.{ordinal}"


def denied(outcome: StepOutcome) -> StepRefusedError | None:
    """Returns the error of a refused request; None if it was not refused."""
    if outcome.denial is None:
        return None
    return StepRefusedError(
        f"step {outcome.key!r} was refused: {outcome.denial.code}: {outcome.denial.message}",
        reason=outcome.denial.code,
    )


def fewer(size: int, error: LimitError) -> int:
    """Returns how many calls to request at once after `size` pending calls were too many.

    Raises the error if it has another reason.
    """
    if error.reason != "MAX_PENDING_STEPS" or size == 1:
        raise error
    return max(1, min(error.limit or 1, size - 1))


def result_of(step: Step) -> Json:
    """Returns the result of an answered step.

    Raises StepDeniedError, StepFailedError or StepCancelledError.
    """
    if step.status is StepStatus.OK:
        return step.result
    if step.status is StepStatus.ERROR:
        code = step.error.code if step.error else "ERROR"
        text = step.error.message if step.error else ""
        # A tool of the pack can use the same code; then the step was never held.
        kind = StepDeniedError if code == "DENIED" and step.approval else StepFailedError
        may = "; the call may have happened" if step.unknown else ""
        error = kind(f"tool {step.tool}: {code}: {text}{may}", reason=code)
        error.step = step
        if isinstance(error, StepFailedError):
            error.unknown = step.unknown
        raise error
    raise StepCancelledError(f"step {step.step} ({step.tool}) was cancelled: the visit was left")
