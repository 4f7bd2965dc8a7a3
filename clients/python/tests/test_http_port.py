"""A client with an address other than that of the gRPC port receives an error that says so."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from conftest import ROOT
from pawl_client import (
    AsyncClient,
    Client,
    PawlError,
    Reply,
    RequestError,
    UnavailableError,
    Worker,
)
from pawl_client.testing import Sidecar

PACK = ROOT / "clients/python/tests/steps.pack.json"


@pytest.fixture(scope="module")
def both() -> Iterator[Sidecar]:
    """A sidecar with an HTTP port."""
    with Sidecar(packs=[PACK], http=True) as own:
        yield own


def _unary(address: str) -> object:
    with Client(address=address) as client:
        return client.get_pack("steps")


def _run(address: str) -> object:
    with Client(address=address) as client:
        return client.run("steps", lambda turn: Reply(), variables={"n": 1})


def _stream(address: str) -> object:
    with Client(address=address) as client:
        return next(iter(client.transitions(follow=True)))


def _upload(address: str) -> object:
    with Client(address=address) as client:
        return client.put_blob(b"1")


def _awaited(address: str) -> object:
    async def call() -> object:
        async with AsyncClient(address=address) as client:
            return await client.run("steps", lambda turn: Reply(), variables={"n": 1})

    return asyncio.run(call())


def _worker(address: str) -> object:
    worker = Worker(address=address)
    worker.prompt("calc")(lambda turn: Reply())
    return asyncio.run(worker.serve())


WAYS = [_unary, _run, _stream, _upload, _awaited, _worker]


@pytest.mark.parametrize("call", WAYS, ids=lambda way: way.__name__)
def test_the_http_port_names_the_other_one(both: Sidecar, call: Callable[[str], object]) -> None:
    with pytest.raises(PawlError) as caught:
        call(both.http)
    error = caught.value
    assert isinstance(error, RequestError)
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "HTTP_PORT")
    assert error.message == (
        f"HTTP_PORT: {both.http} is the HTTP port of the sidecar; gRPC is at {both.address}"
    )


def test_a_server_without_http_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with (
            Client(address=address, retry_for=0.5) as client,
            pytest.raises(UnavailableError) as caught,
        ):
            client.get_pack("steps")
        server.shutdown(socket.SHUT_RDWR)
    expected = f"sidecar at {address}: what listens there answers without HTTP/2, "
    assert caught.value.message.startswith(expected)
