"""8.17: a program that cannot reach a sidecar says so, and names its address."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pawl_client import AsyncClient, Client, Reply, Run, RunStatus, Turn, UnavailableError, Worker
from pawl_client._reconnect_log import ReconnectLog
from pawl_client.testing import Sidecar
from workers import WAIT, ended, serving


def nobody() -> str:
    """An address at which no server listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@contextlib.contextmanager
def told(logger: str) -> Iterator[asyncio.Event]:
    """An event that is set with the first record of a log."""
    first, loop = asyncio.Event(), asyncio.get_running_loop()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            loop.call_soon_threadsafe(first.set)

    handler = Handler()
    logging.getLogger(logger).addHandler(handler)
    try:
        yield first
    finally:
        logging.getLogger(logger).removeHandler(handler)


async def test_a_worker_that_reaches_nobody_says_so(caplog: pytest.LogCaptureFixture) -> None:
    address = nobody()
    worker = Worker(address=address)
    worker.prompt("calc")(lambda turn: Reply())
    with (
        caplog.at_level(logging.WARNING, logger="pawl_client.worker"),
        told("pawl_client.worker") as first_told,
    ):
        async with serving(worker):
            await asyncio.wait_for(first_told.wait(), WAIT)
    # gRPC writes its own messages to another log.
    said = [record.getMessage() for record in caplog.records if record.name == "pawl_client.worker"]
    assert f"worker {worker.id}: no connection to {address}, trying again: " in said[0]
    assert len(said) == 1  # The worker does not log each attempt.


async def test_a_worker_says_that_it_is_connected(
    sidecar: Sidecar, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(address=sidecar.address, packs=["steps"])
    worker.prompt("calc")(lambda turn: Reply(event="" if turn.terminal else "Done"))
    with caplog.at_level(logging.INFO, logger="pawl_client.worker"):
        async with serving(worker):
            run: Run = client.start("steps", variables={"n": 1})
            assert await ended(run) is RunStatus.COMPLETED
    assert f"worker {worker.id}: connected to {sidecar.address}" in caplog.text


def test_how_often_it_is_said() -> None:
    now = [100.0]
    outage = ReconnectLog(lambda: now[0])
    said: list[float] = []
    for second in range(1000):
        now[0] = 100.0 + second
        since = outage.attempt_failed()
        if since is not None:
            said.append(since)
    assert said == [0, 10, 30, 70, 150, 310, 610, 910]
    outage.connected()
    assert outage.attempt_failed() == 0


def test_errors_name_the_address() -> None:
    address = nobody()
    words = f"no sidecar can be reached at {address}: nothing listens there; start one with: pawl "
    with Client(address=address, retry_for=0) as client:
        with pytest.raises(UnavailableError, match=words):
            client.start("steps")
        with pytest.raises(UnavailableError, match=words):
            next(iter(client.transitions(reconnect_for=0)))


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("no-such-host.invalid:7291", "no host has that name"),
        ("unix:/tmp/no-such-socket", "there is no such socket; start one with"),
    ],
)
def test_causes(address: str, words: str) -> None:
    with Client(address=address, retry_for=0) as client, pytest.raises(UnavailableError) as caught:
        client.caller()
    assert words in str(caught.value)


def test_errors_say_where_the_address_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    address = nobody()
    monkeypatch.setenv("PAWL_ADDR", address)
    words = re.escape(f"reached at {address} (PAWL_ADDR): nothing listens there; ")
    with Client(retry_for=0) as client, pytest.raises(UnavailableError, match=words):
        client.caller()


async def test_a_client_that_reaches_no_sidecar_logs_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = nobody()
    async with AsyncClient(address=address, retry_for=4) as client:
        with pytest.raises(UnavailableError):
            await client.caller()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "pawl_client"]
    assert line.startswith(f"no sidecar can be reached at {address}: nothing listens there; ")
    assert re.search(r"; trying again for [12] s more$", line)


@pytest.mark.parametrize("made", [Client, AsyncClient, Worker])
def test_arguments_without_a_name(made: Any) -> None:
    words = re.escape(f"{made.__name__}(address='127.0.0.1:1')")
    with pytest.raises(TypeError, match=words):
        made("127.0.0.1:1")
    assert "address" in inspect.signature(made).parameters


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://127.0.0.1:7291",
        "https://there:1",
        "localhost",
        "there:port",
        "a b:1",
        "x:1/y",
        "://x:1",
        "::1:7291",
        "unix:",
        "user@there:1",
    ],
)
def test_addresses_that_are_none(address: str) -> None:
    for kind in (Client, Worker):
        with pytest.raises(ValueError, match="address: HOST:PORT or unix:PATH, not "):
            kind(address=address)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:7291", "localhost:1", "[::1]:7291", "my-host.example.:80", "unix:/a/b"]
)
def test_addresses(address: str) -> None:
    Worker(address=address)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_timeouts_in_which_nothing_can_happen(client: Client, timeout: float) -> None:
    def handler(turn: Turn) -> Reply:
        if not turn.terminal:
            with pytest.raises(ValueError, match="timeout: must be greater than 0"):
                turn.step("add", {"a": 1, "b": 2}, timeout=timeout)
        return Reply(event="" if turn.terminal else "Done")

    # "*" in a mapping of handlers and of tools takes what has no other.
    tools = {"*": lambda payload: 3}
    result = client.run("steps", {"*": handler}, tools=tools, variables={"n": 1})
    assert result.status is RunStatus.COMPLETED
    assert result.errors == ()


def test_any_tool_in_a_mapping(client: Client) -> None:
    def handler(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        return Reply(event="Done", artifacts={"sum": turn.step("add", {"a": 1, "b": 2})})

    tools = {"*": lambda payload: 3}
    result = client.run("steps", {"*": handler}, tools=tools, variables={"n": 1})
    assert result.artifacts == {"sum": 3}
