"""Signals that stop a worker, also where event loops have no signal handlers, as on Windows."""

from __future__ import annotations

import asyncio
import signal

import pytest

from pawl_client import AsyncTurn, Client, Reply, Worker
from pawl_client.testing import Sidecar


@pytest.fixture(params=["unix", "windows"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a worker finds on Unix, or on Windows."""
    if request.param == "windows":

        def refuse(*_: object) -> None:
            raise NotImplementedError

        monkeypatch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", refuse)
        monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    return str(request.param)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGBREAK"])
def test_a_signal_drains_the_worker(
    sidecar: Sidecar, client: Client, system: str, name: str
) -> None:
    if not hasattr(signal, name):
        assert system == "unix"
        return
    number = getattr(signal, name)
    before = signal.getsignal(number)
    worker = Worker(address=sidecar.address, packs=["self-correcting"])
    turns: list[int] = []

    @worker.prompt("worker")
    async def answer(turn: AsyncTurn) -> Reply:
        signal.raise_signal(number)
        turns.append(turn.visit)
        await turn.output("after the signal")
        return Reply(event="Success")

    run = client.start("self-correcting")
    worker.run()
    assert (turns, run.info().state) == ([1], "complete")
    assert signal.getsignal(number) == before
    run.cancel("the next test has a run of its own")
