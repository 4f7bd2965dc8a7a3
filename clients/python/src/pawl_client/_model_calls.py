"""The sidecar's answers to calls about model steps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pawl_client._enums import Disposition, RunStatus
from pawl_client._records import Record
from pawl_client._runs import Remaining, Step
from pawl_client._values import Denial, Json, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class IncludedMessage:
    """A steering message or notice that a request must contain, as a message of role "user" at its
    end.
    """

    seq: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedModel:
    """The step of a round: a PENDING one is to be executed, an OK one has its answer."""

    key: str
    step: Step | None
    replayed: bool
    denial: Denial | None
    max_answer_bytes: int
    remaining: Remaining | None
    ended: Record | None
    status: RunStatus
    seq: int
    included_messages: tuple[IncludedMessage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredModel:
    """The result of reporting an answer; after a failure, `next` is the attempt to make after
    `wait`.
    """

    disposition: Disposition
    record: Record | None
    ended: Record | None
    status: RunStatus
    seq: int
    next: int
    wait: timedelta | None
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedModelCall:
    """The result of storing the id of a response."""

    disposition: Disposition
    record: Record | None
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownModel:
    """A MODEL step with the whole request that the model received."""

    step: Step | None
    system: str
    tools: Json
    parameters: Json
    messages: tuple[Message, ...]
    redacted: bool
