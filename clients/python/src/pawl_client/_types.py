"""What `pawl codegen` fills in: the parameters of the classes of the API.

Each has a default, so that nobody who does without has to name them.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from typing_extensions import TypedDict, TypeVar

from pawl_client._values import ArtifactLike, Json


class Steps(Protocol):
    """How `Turn.step` is called."""

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
    """How `AsyncTurn.step` is called."""

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
    """What a step of an agent is answered with: docs/guides/a2a.md, "Delegation"."""

    status: str
    reason: str
    output: Json
    artifacts: dict[str, Json]
    task_id: str
    card_url: str


StepsT = TypeVar("StepsT", covariant=True, default=Steps)
AsyncStepsT = TypeVar("AsyncStepsT", covariant=True, default=AsyncSteps)
# Artifacts as a turn writes them, and variables as it reads them.
WrittenT = TypeVar("WrittenT", contravariant=True, default=Mapping[str, ArtifactLike])
ReadT = TypeVar("ReadT", covariant=True, default=Any)
# What a handler answers with.
ReplyEventT = TypeVar("ReplyEventT", bound=str, covariant=True, default=str)
ReplyArtifactsT = TypeVar(
    "ReplyArtifactsT",
    bound=Mapping[str, ArtifactLike],
    covariant=True,
    default=Mapping[str, ArtifactLike],
)
# What a run takes and gives; of a bare one, anything.
EventT = TypeVar("EventT", bound=str, default=Any)
ArtifactsT = TypeVar("ArtifactsT", bound=Mapping[str, ArtifactLike], default=Any)
VariablesT = TypeVar("VariablesT", covariant=True, default=Any)
# What came out of it.
ValuesT = TypeVar("ValuesT", covariant=True, default=Mapping[str, ArtifactLike])
# What a run is started with: by what is given, or what it is to be.
GivenT = TypeVar("GivenT", bound=Mapping[str, Json], default=Any)
