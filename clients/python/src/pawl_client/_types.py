"""Type parameters of the API, which `pawl codegen` fills in.

Each has a default, so that programs without generated types need not name them.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from typing_extensions import TypedDict, TypeVar

from pawl_client._values import ArtifactLike, Json


class Steps(Protocol):
    """The type of `Turn.step`."""

    def __call__(
        self,
        tool: str,
        payload: Mapping[str, Json] | None = None,
        *,
        key: str = "",
        reframe: bool = False,
        timeout: float | None = None,
    ) -> Json:
        """See `Turn.step`."""


class AsyncSteps(Protocol):
    """The type of `AsyncTurn.step`."""

    def __call__(
        self,
        tool: str,
        payload: Mapping[str, Json] | None = None,
        *,
        key: str = "",
        reframe: bool = False,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, Json]:
        """See `AsyncTurn.step`."""


class AgentResult(TypedDict, total=False):
    """The answer to a step of an agent: docs/guides/a2a.md, "Delegation"."""

    status: str
    reason: str
    output: Json
    artifacts: dict[str, Json]
    task_id: str
    card_url: str


StepsT = TypeVar("StepsT", covariant=True, default=Steps)
AsyncStepsT = TypeVar("AsyncStepsT", covariant=True, default=AsyncSteps)
# Artifacts that a turn writes, and variables that it reads.
WrittenT = TypeVar("WrittenT", contravariant=True, default=Mapping[str, ArtifactLike])
ReadT = TypeVar("ReadT", covariant=True, default=Any)
# Event and artifacts of a handler's reply.
ReplyEventT = TypeVar("ReplyEventT", bound=str, covariant=True, default=str)
ReplyArtifactsT = TypeVar(
    "ReplyArtifactsT",
    bound=Mapping[str, ArtifactLike],
    covariant=True,
    default=Mapping[str, ArtifactLike],
)
# Events, artifacts and variables of a run. A run without type parameters accepts any.
EventT = TypeVar("EventT", bound=str, default=Any)
ArtifactsT = TypeVar("ArtifactsT", bound=Mapping[str, ArtifactLike], default=Any)
VariablesT = TypeVar("VariablesT", covariant=True, default=Any)
# Artifacts of a run's result.
ValuesT = TypeVar("ValuesT", covariant=True, default=Mapping[str, ArtifactLike])
# Variables of the start of a run, inferred from the argument or from the expected type.
GivenT = TypeVar("GivenT", bound=Mapping[str, Json], default=Any)
