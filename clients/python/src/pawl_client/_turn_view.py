"""What a handler can read of its turn, and what answers to its steps mean to it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Generic

from pawl_client import _schema
from pawl_client._enums import StepStatus
from pawl_client._errors import LimitError, StepCancelledError, StepDeniedError, StepFailedError
from pawl_client._runs import ArtifactSlot, PackRef, Step, StepOutcome, ToolSpec, TurnInfo
from pawl_client._turn_requests import StepCall
from pawl_client._types import ReadT
from pawl_client._values import Json, Message, OutputPiece, Part


class TurnView(Generic[ReadT]):
    """What a handler can read of its turn."""

    def __init__(self, info: TurnInfo, *, agent: str = "", labels: Mapping[str, str] | None = None):
        self.info = info
        """Everything, as it was read."""
        self.agent = agent
        """Member key, for a run of an agent handed to a worker; else empty."""
        self.labels = dict(labels or {})
        """Labels of the run, where the turn was handed to a worker."""
        self._ordinals = itertools.count(1)

    def __repr__(self) -> str:
        turn = self.info.turn
        return f"<turn {turn.turn_seq} of {turn.run_id}: {turn.state}, attempt {turn.attempt}>"

    @property
    def run_id(self) -> str:
        """The run."""
        return self.info.turn.run_id

    @property
    def state(self) -> str:
        """State visited."""
        return self.info.turn.state

    @property
    def visit(self) -> int:
        """Number of this visit of the state, from 1."""
        return self.info.turn.visit

    @property
    def attempt(self) -> int:
        """Execution attempt, from 1; only failed executions raise it."""
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
        """Conversation that the turn sees, oldest first."""
        return self.info.messages

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Tools that the prompt lists."""
        return self.info.tools

    @property
    def allowed_events(self) -> tuple[str, ...]:
        """The only events that move the run from here."""
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
        """What the pack hands to the executor: parameters, validators, ..."""
        return self.info.settings

    @property
    def terminal(self) -> bool:
        """True: completing this turn ends the run."""
        return self.info.terminal

    @property
    def deadline(self) -> datetime | None:
        """When the run's wall time is over."""
        return self.info.deadline

    def _keyed(self, call: StepCall) -> StepCall:
        """The call under its key, which it has before the first request for it and keeps in every
        further one: else the calls after it would have other keys in the next execution, which
        makes them again."""
        if call.call is not None:
            return call
        ordinal = next(self._ordinals)
        return replace(call, key=call.key or _default_key(self.info, ordinal))

    def check_payload(self, tool: str, payload: Json) -> None:
        """Raises SchemaError if the payload does not fit the tool's JSON Schema."""
        for spec in self.tools:
            if spec.name == tool and spec.parameters is not None:
                _schema.check(payload, spec.parameters, f"payload of tool {tool}")


def next_piece(text: str, *, first: bool) -> OutputPiece:
    """A durable piece of `Turn.output`: the first one replaces what an earlier execution
    wrote."""
    return OutputPiece(id="output", parts=(Part(text=text),), append=not first)


def _default_key(info: TurnInfo, ordinal: int) -> str:
    """The key of the turn's n-th call, from 1, as the server would make it.

    It is made here so that it does not depend on what a restarted server remembers.
    """
    first = info.turn.turn_seq == info.visit_seq
    return str(ordinal) if first else f"{info.turn.turn_seq}.{ordinal}"


def denied(outcome: StepOutcome) -> StepDeniedError | None:
    """The error of a refused request; None if it was not refused."""
    if outcome.denial is None:
        return None
    return StepDeniedError(
        f"step {outcome.key!r} was refused: {outcome.denial.code}: {outcome.denial.message}",
        reason=outcome.denial.code,
    )


def fewer(size: int, error: LimitError) -> int:
    """How many calls to ask for at once after so many were too many to be pending. Raises
    the error if it says something else."""
    if error.reason != "MAX_PENDING_STEPS" or size == 1:
        raise error
    return max(1, min(error.limit or 1, size - 1))


def result_of(step: Step) -> Json:
    """The result of an answered step; raises if it did not end well."""
    if step.status is StepStatus.OK:
        return step.result
    if step.status is StepStatus.ERROR:
        code = step.error.code if step.error else "ERROR"
        text = step.error.message if step.error else ""
        error = StepFailedError(f"tool {step.tool}: {code}: {text}", reason=code)
        error.step = step
        raise error
    raise StepCancelledError(f"step {step.step} ({step.tool}) was cancelled: the visit was left")
