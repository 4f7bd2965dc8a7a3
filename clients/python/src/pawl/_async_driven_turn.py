"""The turn of a run that this client drives, for coroutines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pawl._async_caller import AsyncCaller
from pawl._async_turn import AsyncTurn
from pawl._awaiting import together
from pawl._drive import Holder
from pawl._flow import check_timeout
from pawl._model_calls import AnsweredModel, RequestedModel
from pawl._models import ModelAnswer, ModelFailure, ModelRequest, ProviderLimits
from pawl._runs import StepOutcome, TurnInfo
from pawl._turn_requests import StepCall
from pawl._values import ArtifactLike, Json, OutputPiece, Usage


class AsyncDrivenTurn(AsyncTurn):
    """A turn of a run that this client drives."""

    def __init__(
        self,
        client: AsyncCaller,
        info: TurnInfo,
        holder: Holder,
        tools: Mapping[str, Callable[[Any], Any]],
    ) -> None:
        super().__init__(info)
        self._client, self._holder, self._tools = client, holder, tools

    async def _step(
        self,
        tool: str,
        payload: Mapping[str, Json] | None = None,
        *,
        key: str = "",
        reframe: bool = False,
        timeout: float | None = None,
    ) -> Json:
        check_timeout(timeout)
        self.check_payload(tool, dict(payload or {}))
        call = self._keyed(StepCall(tool, dict(payload or {}), key, reframe))
        return await self._client.perform(
            self._holder.step(call, tool_of(self._tools, tool), timeout)
        )

    async def _together(self, calls: Sequence[StepCall]) -> Sequence[StepOutcome]:
        outcomes = await self._client.perform(self._holder.request(calls))
        return await together(
            [partial(self._finish, *each) for each in zip(outcomes, calls, strict=True)]
        )

    async def _finish(self, outcome: StepOutcome, call: StepCall) -> StepOutcome:
        local = tool_of(self._tools, call.tool)
        return await self._client.perform(self._holder.finish(outcome, call, local, None))

    async def request_model(
        self, round: int, request: ModelRequest, *, bound: Usage | None = None, key: str = ""
    ) -> RequestedModel:
        return await self._client.perform(self._holder.request_model(round, request, bound, key))

    async def answer_model(
        self,
        step: int,
        attempt: int,
        came: ModelAnswer | ModelFailure,
        *,
        usage: Usage | None = None,
        limits: ProviderLimits | None = None,
    ) -> AnsweredModel:
        return await self._client.perform(
            self._holder.answer_model(step, attempt, came, usage, limits)
        )

    async def note_model(self, step: int, attempt: int, response_id: str) -> None:
        await self._client.perform(self._holder.note_model(step, attempt, response_id))

    async def set_artifacts(self, artifacts: Mapping[str, ArtifactLike]) -> None:
        await self._client.perform(self._holder.set_artifacts(artifacts))

    async def output(self, text: str, *, durable: bool = False) -> None:
        """Nobody watches the output of a run that the caller drives, but records stay."""
        if durable:
            await self._client.perform(self._holder.output(text))

    async def retract_output(self, size: int) -> None:
        """Nobody watches the output of a run that the caller drives."""

    async def write_output(self, piece: OutputPiece) -> None:
        await self._client.perform(self._holder.write_output(piece))


def tool_of(tools: Mapping[str, Callable[[Any], Any]], name: str) -> Callable[[Any], Any] | None:
    """What executes a tool here; "*" takes what has no other. None: somebody else does."""
    return tools.get(name) or tools.get("*")
