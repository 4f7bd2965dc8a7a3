"""Pawl by its Python client: StartRun, EmitEvent with an artifact, and a last event."""

from pathlib import Path

from adapters.peer import EVENTS, Peer
from pawl_client import AsyncClient, AsyncRun, PawlError


class Adapter(Peer):
    """`place`: {address, pack}."""

    async def open(self) -> None:
        self.client = AsyncClient(address=self.place["address"])
        await self.client.register_pack(Path(self.place["pack"]))
        self.runs: dict[str, AsyncRun] = {}

    async def close(self) -> None:
        await self.client.close()

    async def start(self, run: str) -> None:
        await self._run(run)

    async def _run(self, run: str) -> AsyncRun:
        """The run of that name: its start repeated under the same id is the same run."""
        known = self.runs.get(run)
        if known is None:
            known = self.runs[run] = await self.client.open("bench-peers", request_id=run)
        return known

    async def event(self, run: str, seq: int, payload: str) -> None:
        handle = await self._run(run)
        await handle.emit("Next", artifacts={"note": payload}, event_id=f"{run}:{seq}")

    async def end(self, run: str) -> None:
        handle = await self._run(run)
        await handle.emit("Done", event_id=f"{run}:{EVENTS + 1}")
        del self.runs[run]

    async def read(self, run: str) -> list[str]:
        handle = await self._run(run)
        return [
            str(write.value)
            async for record in handle.transitions(follow=False)
            for write in record.body.artifacts_written
        ]
