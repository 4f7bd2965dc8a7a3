"""Restate by its HTTP ingress: a virtual object a run, a call an event, with a key."""

import json

import aiohttp
from adapters.peer import EVENTS, Peer


class Adapter(Peer):
    """`place`: {ingress, admin, service}."""

    async def open(self) -> None:
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        async with self.session.post(
            self.place["admin"] + "/deployments", json={"uri": self.place["service"]}
        ) as answer:
            answer.raise_for_status()

    async def close(self) -> None:
        await self.session.close()

    async def start(self, run: str) -> None:
        await self._call(run, "start", 0, None)

    async def event(self, run: str, seq: int, payload: str) -> None:
        await self._call(run, "event", seq, payload)

    async def end(self, run: str) -> None:
        await self._call(run, "end", EVENTS + 1, None)

    async def read(self, run: str) -> list[str]:
        return await self._call(run, "read", -1, None)

    async def _call(self, run: str, handler: str, seq: int, body: str | None) -> list[str]:
        headers = {"content-type": "application/json"}
        if seq >= 0:
            headers["idempotency-key"] = f"{run}:{seq}"
        url = f"{self.place['ingress']}/loop/{run}/{handler}"
        async with self.session.post(url, data=json.dumps(body), headers=headers) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"{handler}: {answer.status} {await answer.text()}")
            return await answer.json() if seq < 0 else []
