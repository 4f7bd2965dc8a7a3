"""How clients and workers reach a sidecar: TLS, Unix socket, tokens, idle, large answers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

import certificates
from conftest import STEPS
from pawl_client import (
    AsyncClient,
    AsyncTurn,
    AuthenticationError,
    Client,
    LimitError,
    Reply,
    Run,
    RunStatus,
    StateError,
    Tls,
    TurnAssigned,
    UnavailableError,
    Worker,
    blob_ref,
)
from pawl_client.testing import Sidecar
from pawl_client.v1 import record_pb2, run_pb2, worker_pb2
from proxy import Proxy
from workers import WAIT, ended, serving


def done(turn: AsyncTurn) -> Reply:
    return Reply(event="" if turn.terminal else "Done")


async def one_run(client: Client, **worker: Any) -> Run:
    """A run that a worker with these settings completes."""
    executor = Worker(**worker)
    executor.prompt("calc")(done)
    async with serving(executor):
        run = client.start("steps", variables={"n": 1})
        assert await ended(run) is RunStatus.COMPLETED
    return run


# TLS


async def test_a_client_certificate(tmp_path: Path) -> None:
    files = certificates.make(tmp_path, client="billing")
    rights = tmp_path / "rights"
    rights.touch(mode=0o600)
    rights.write_text("cert:billing runs:read,runs:write,packs:write,work\n")
    flags = [
        f"--tls-cert={files.cert}",
        f"--tls-key={files.key}",
        f"--tls-client-ca={files.ca}",
        f"--certificates-file={rights}",
    ]
    mutual = Tls(
        ca=files.ca,
        cert=files.client_cert,
        key=files.client_key,
        server_name=certificates.SERVER_NAME,
    )
    with Sidecar(packs=[STEPS], flags=flags) as own:
        with own.client(tls=mutual) as client:
            assert client.caller().principal == "cert:billing"
            run = await one_run(client, address=own.address, tls=mutual)
            (assigned, *_) = run.records(kinds=["TURN_ASSIGNED"])
            assert isinstance(assigned.body, TurnAssigned)
        async with own.async_client(tls=mutual) as aclient:
            assert (await aclient.caller()).principal == "cert:billing"
        nameless = Tls(ca=files.ca, server_name=certificates.SERVER_NAME)
        with (
            own.client(tls=nameless, retry_for=0) as client,
            pytest.raises(UnavailableError),
        ):
            client.caller()


def test_a_certificate_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    files = certificates.make(tmp_path / "own")
    other = certificates.make(tmp_path / "other")
    with Sidecar(flags=[f"--tls-cert={files.cert}", f"--tls-key={files.key}"]) as own:
        for tls in (
            Tls(ca=other.ca, server_name=certificates.SERVER_NAME),
            Tls(ca=files.ca, server_name="another.test"),
            None,
        ):
            with own.client(tls=tls, retry_for=0) as client, pytest.raises(UnavailableError):
                client.caller()
        with own.client(tls=Tls(ca=files.ca, server_name=certificates.SERVER_NAME)) as client:
            assert client.caller().principal == "anonymous"


# Unix socket


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path for a socket; those are short."""
    directory = tempfile.mkdtemp(prefix="pawl-")
    yield Path(directory) / "s"
    shutil.rmtree(directory)


async def test_a_unix_socket(socket: Path) -> None:
    address = f"unix:{socket}"
    with Sidecar(packs=[STEPS], flags=[f"--socket={socket}"]), Client(address=address) as client:
        run = await one_run(client, address=address)
        assert [record.kind for record in run.transitions()][-1] == "ENDED"
        async with AsyncClient(address=address) as aclient:
            assert (await aclient.get_pack("steps")).pack.id == "steps"
            data = b"over a socket"
            assert (await aclient.put_blob(data)).ref == blob_ref(data)
            assert client.get_blob(blob_ref(data)) == data


# Tokens


def digest(secret: str) -> str:
    """A token as a tokens file has it."""
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()


def words(path: Path, secret: str) -> str:
    path.touch(mode=0o600)
    path.write_text(f"app runs:write,runs:read,work {digest(secret)}\n")
    return secret


async def test_a_token_that_is_rotated(tmp_path: Path) -> None:
    """Clients, streams and workers that ask for their token go on with the new one."""
    file = tmp_path / "tokens"
    secret = words(file, "the-first-secret-0123")
    with Sidecar(packs=[STEPS], flags=[f"--tokens-file={file}"]) as own:
        worker = Worker(address=own.address, token=lambda: secret)
        fixed = own.client(token=secret)
        started, go = asyncio.Event(), asyncio.Event()

        @worker.prompt("calc")
        async def calc(turn: AsyncTurn) -> Reply:
            started.set()
            await go.wait()
            return done(turn)

        with own.client(token=lambda: secret) as client, fixed:
            async with own.async_client(token=lambda: secret) as aclient, serving(worker):
                run = client.start("steps", variables={"n": 1})
                await asyncio.wait_for(started.wait(), WAIT)
                records = aclient.attach(run.id).transitions()
                assert (await anext(records)).kind == "TRANSITION"
                secret = words(file, "the-second-secret-012")
                await asyncio.to_thread(own.restart)
                go.set()
                assert [record.kind async for record in records] == ["TRANSITION", "ENDED"]
                assert run.info().status is RunStatus.COMPLETED
            with pytest.raises(AuthenticationError) as caught:
                list(fixed.list_runs())
            assert caught.value.reason == "TOKEN_UNKNOWN"


class Doorman(grpc.GenericRpcHandler):
    """A server that takes one token, and tells how often it was asked."""

    def __init__(self) -> None:
        self.wanted = "Bearer two"
        self.calls: list[str] = []
        self._answers: dict[str, Callable[[grpc.ServicerContext], Iterator[Any]]] = {
            "GetCaller": lambda context: iter([run_pb2.GetCallerResponse(principal="me")]),
            "PutBlob": lambda context: iter([run_pb2.PutBlobResponse(blob_ref="blob:x", size=1)]),
            "StreamTransitions": self._stream,
            "Work": self._work,
        }

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        name = details.method.rpartition("/")[2]
        token = dict(details.invocation_metadata).get("authorization", "")

        def behave(requests: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
            self.calls.append(name)
            if token != self.wanted:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "withdrawn")
            for message in self._answers[name](context):
                yield message.SerializeToString()

        return grpc.stream_stream_rpc_method_handler(behave)

    def _stream(self, context: grpc.ServicerContext) -> Iterator[Any]:
        record = record_pb2.Record(run_id="r", seq=1, cursor="1")
        record.ended.SetInParent()
        yield run_pb2.StreamTransitionsResponse(record=record)

    def _work(self, context: grpc.ServicerContext) -> Iterator[Any]:
        yield worker_pb2.WorkResponse(registered=worker_pb2.WorkerRegistered())
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "enough")


@pytest.fixture
def doorman() -> Iterator[tuple[Doorman, str]]:
    server, guard = grpc.server(ThreadPoolExecutor(8)), Doorman()
    server.add_generic_rpc_handlers([guard])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield guard, f"127.0.0.1:{port}"
    server.stop(None).wait(WAIT)


class Rotating:
    """A token that is another one each time it is asked for."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)

    def __call__(self) -> str:
        return self._tokens.pop(0) if len(self._tokens) > 1 else self._tokens[0]


def test_a_withdrawn_token_is_asked_for_again(doorman: tuple[Doorman, str]) -> None:
    guard, address = doorman
    with Client(address=address, token=Rotating("one", "two")) as client:
        assert client.caller().principal == "me"
    with Client(address=address, token=Rotating("one", "two")) as client:
        assert client.put_blob(b"x").ref == "blob:x"
    with Client(address=address, token=Rotating("one", "two")) as client:
        assert [record.kind for record in client.attach("r").transitions()] == ["ENDED"]
    assert guard.calls == ["GetCaller"] * 2 + ["PutBlob"] * 2 + ["StreamTransitions"] * 2


async def test_a_withdrawn_token_is_asked_for_again_by_coroutines(
    doorman: tuple[Doorman, str],
) -> None:
    guard, address = doorman
    async with AsyncClient(address=address, token=Rotating("one", "two")) as client:
        assert (await client.caller()).principal == "me"
    async with AsyncClient(address=address, token=Rotating("one", "two")) as client:
        assert (await client.put_blob(b"x")).ref == "blob:x"
    async with AsyncClient(address=address, token=Rotating("one", "two")) as client:
        kinds = [record.kind async for record in client.attach("r").transitions()]
    assert kinds == ["ENDED"]
    worker = Worker(address=address, token=Rotating("one", "two"))
    worker.prompt("*")(done)
    with pytest.raises(Exception, match="enough"):
        await asyncio.wait_for(worker.serve(), WAIT)
    assert guard.calls[-2:] == ["Work"] * 2


async def test_a_token_that_stays_wrong(doorman: tuple[Doorman, str]) -> None:
    """Calls ask for it once more, not for ever; one that is fixed, not at all."""
    guard, address = doorman
    for token, calls in ((Rotating("no"), 2), ("no", 1)):
        guard.calls.clear()
        with Client(address=address, token=token) as client:
            with pytest.raises(AuthenticationError):
                client.caller()
            assert len(guard.calls) == calls
            with pytest.raises(AuthenticationError):
                list(client.attach("r").transitions())
            assert len(guard.calls) == 2 * calls
    guard.calls.clear()
    worker = Worker(address=address, token="no")
    worker.prompt("*")(done)
    with pytest.raises(AuthenticationError):
        await asyncio.wait_for(worker.serve(), WAIT)
    # A stream that is refused while its registration is on the way may look broken,
    # and is then opened once more; what counts is that it is not opened for ever.
    assert 1 <= guard.calls.count("Work") <= 3


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda: "no", "withdrawn"),
        (lambda: 1 / 0, "the function raised ZeroDivisionError"),
        (lambda: None, "the function must return a str, not NoneType"),
    ],
    ids=["late", "failing", "none"],
)
async def test_a_worker_outlives_a_token_that_is_late(
    doorman: tuple[Doorman, str],
    bad: Callable[[], Any],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The function gives the right token at its sixth call."""
    _, address = doorman
    given: list[object] = []

    def token() -> str:
        given.append(None)
        return "two" if len(given) > 5 else bad()

    worker = Worker(address=address, token=token)
    worker.prompt("*")(done)
    with (
        caplog.at_level(logging.WARNING, logger="pawl_client.worker"),
        pytest.raises(StateError, match="enough"),
    ):
        await asyncio.wait_for(worker.serve(), WAIT)
    assert len(given) >= 6
    warnings = [r.getMessage() for r in caplog.records if r.name == "pawl_client.worker"]
    assert any("trying again: " in line and said in line for line in warnings), warnings


# Idle connections

PERIOD = 6.0
"""Seconds between pings; the sidecar takes none that are less than 5 s apart."""


async def test_an_idle_worker_stays_connected_for_three_pings() -> None:
    with Sidecar(packs=[STEPS]) as own, Proxy(own.address) as proxy:
        worker = Worker(address=proxy.address, keepalive=PERIOD)
        worker.prompt("calc")(done)
        async with serving(worker) as task:
            await asyncio.to_thread(proxy.wait_for_pings, 4, WAIT)
            assert not task.done()
        assert proxy.connections == 1


# Dead connections

NOTICED = 15.0
"""Seconds within which a connection is noticed to be dead, with the settings that all have."""


@pytest.fixture(scope="module")
def steps() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS]) as own:
        yield own


def test_a_call_over_a_dead_connection_is_made_over_a_new_one(steps: Sidecar) -> None:
    with Proxy(steps.address) as proxy, Client(address=proxy.address) as client:
        client.caller()
        proxy.swallow()
        begun = time.monotonic()
        client.start("steps", variables={"n": 1})
        assert time.monotonic() - begun < NOTICED
        assert proxy.connections == 2


async def test_a_stream_and_a_worker_over_a_dead_connection_have_a_new_one(
    steps: Sidecar,
) -> None:
    with Proxy(steps.address) as proxy, steps.client() as direct:
        worker = Worker(address=proxy.address)
        worker.prompt("calc")(done)
        async with AsyncClient(address=proxy.address) as client, serving(worker):
            driven = await client.open("steps", variables={"n": 1})
            records = client.attach(driven.id).transitions()
            await records.__anext__()
            first = direct.start("steps", variables={"n": 1})
            assert await ended(first) is RunStatus.COMPLETED
            proxy.swallow()
            begun = time.monotonic()
            run = direct.start("steps", variables={"n": 1})
            direct.attach(driven.id).cancel()
            assert await ended(run) is RunStatus.COMPLETED
            assert [record.kind async for record in records] == ["ENDED"]
            assert time.monotonic() - begun < NOTICED


# Signals


async def test_a_worker_runs_in_a_thread(steps: Sidecar) -> None:
    worker = Worker(address=steps.address)
    worker.prompt("calc")(done)
    with steps.client() as client:
        running = asyncio.create_task(asyncio.to_thread(worker.run))
        assert await ended(client.start("steps", variables={"n": 1})) is RunStatus.COMPLETED
        worker.stop()
        await asyncio.wait_for(running, WAIT)


# Large answers


PIECE = "x" * (2 << 20)
ROOM = (
    "--limits-artifact-bytes=3MiB",
    "--limits-run-artifact-bytes=16MiB",
    "--limits-conversation-bytes=16MiB",
)
"""A sidecar whose answers may be larger than what gRPC takes by default, 4 MiB."""


async def test_answers_over_four_mebibytes() -> None:
    with Sidecar(packs=[STEPS], flags=ROOM) as own, own.client() as client:
        run = client.open("steps", variables={"n": 1})
        token = run.turn().turn.token
        for _ in range(3):
            run.set_artifacts({"log": PIECE}, turn_token=token)
        log = "\n".join([PIECE] * 3)
        assert run.artifacts()["log"] == log
        run.cancel()
        (*_, end) = run.transitions(snapshots=True)
        assert end.snapshot is not None
        assert end.snapshot.artifacts[0].value == log
        async with own.async_client() as aclient:
            assert await aclient.attach(run.id).artifacts() == {"log": log}
        with own.client(max_message_bytes=4 << 20) as small, pytest.raises(LimitError):
            small.attach(run.id).artifacts()


async def test_a_turn_over_four_mebibytes() -> None:
    sizes: list[int] = []
    with Sidecar(packs=[STEPS], flags=ROOM) as own, own.client() as client:
        worker = Worker(address=own.address)

        @worker.prompt("calc")
        async def calc(turn: AsyncTurn) -> Reply:
            sizes.append(sum(len(message.text) for message in turn.messages))
            # Without an event: the inputs that wait are the next turn of this visit.
            return Reply(event="Done" if len(sizes) > 1 and not turn.terminal else "")

        run = client.start("steps", variables={"n": 1}, input=PIECE)
        for _ in range(2):
            assert run.send_input(PIECE).queued
        async with serving(worker):
            assert await ended(run) is RunStatus.COMPLETED
    assert sizes[:2] == [len(PIECE), 3 * len(PIECE)]
