"""The turn of a run that this client drives, for coroutines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pawl._async_caller import AsyncCaller
from pawl._async_turn import AsyncTurn
from pawl._drive import Holder
from pawl._flow import check_timeout
from pawl._runs import TurnInfo
from pawl._turn_requests import StepCall
from pawl._values import ArtifactLike, Json, OutputPiece


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
        call = StepCall(tool, dict(payload or {}), key, reframe)
        return await self._client.perform(
            self._holder.step(call, tool_of(self._tools, tool), timeout)
        )

    async def set_artifacts(self, artifacts: Mapping[str, ArtifactLike]) -> None:
        await self._client.perform(self._holder.set_artifacts(artifacts))

    async def output(self, text: str, *, durable: bool = False) -> None:
        """Nobody watches the output of a run that the caller drives, but records stay."""
        if durable:
            await self._client.perform(self._holder.output(text))

    async def write_output(self, piece: OutputPiece) -> None:
        await self._client.perform(self._holder.write_output(piece))


def tool_of(tools: Mapping[str, Callable[[Any], Any]], name: str) -> Callable[[Any], Any] | None:
    """What executes a tool here; "*" takes what has no other. None: somebody else does."""
    return tools.get(name) or tools.get("*")
