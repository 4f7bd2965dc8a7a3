"""What the driver asks of a peer."""

from collections.abc import Awaitable, Callable
from typing import Any

EVENTS = 10
"""Events of a run between its start and its end."""

BYTES = 256
"""Bytes of each event's payload."""

Acknowledged = Callable[[str, int], None]
"""Is called with (run, seq) of each event as soon as the peer has acknowledged it."""


class Peer:
    """A durable place for runs. Every method returns once the peer acknowledged what was
    asked, which may be repeated after a crash: the caller repeats what was not answered,
    under the same identity where the peer knows such a thing."""

    def __init__(self, place: dict[str, Any]) -> None:
        """`place` is what the server of the peer said of itself (address, directory)."""
        self.place = place

    async def open(self) -> None:
        """Connects."""

    async def close(self) -> None:
        """Disconnects."""

    async def start(self, run: str) -> None:
        raise NotImplementedError

    async def event(self, run: str, seq: int, payload: str) -> None:
        raise NotImplementedError

    async def end(self, run: str) -> None:
        raise NotImplementedError

    async def read(self, run: str) -> list[str]:
        """The payloads that are stored of a run, in any order, each as often as it is."""
        raise NotImplementedError

    async def loop(
        self, run: str, begin: int, timed: Callable[[Awaitable[None]], Awaitable[None]],
        acknowledged: Acknowledged,
    ) -> None:
        """Takes a run from event `begin` (0: it is not started) to its end."""
        if begin == 0:
            await self.start(run)
            acknowledged(run, 0)
        for seq in range(max(begin, 1), EVENTS + 1):
            await timed(self.event(run, seq, payload(run, seq)))
            acknowledged(run, seq)
        await self.end(run)
        acknowledged(run, EVENTS + 1)


def payload(run: str, seq: int) -> str:
    """The 256 bytes of an event, which say whose it is."""
    return f"{run}:{seq}:".ljust(BYTES, "x")
