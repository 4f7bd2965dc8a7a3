"""What the client does with each error of the table in docs/reference/errors.md, from a server."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import code_pb2, error_details_pb2, status_pb2

from pawl_client import (
    AsyncClient,
    AuthenticationError,
    CallCancelledError,
    Client,
    PawlError,
    Reply,
    Worker,
)
from pawl_client._advice import ADVICE, advice_of
from pawl_client._settings import Settings
from pawl_client._status import error_from_rpc
from pawl_client.v1 import run_pb2, worker_pb2
from workers import WAIT

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "errors.md"
WORDS = {
    "any, or no `ErrorInfo`": "any",
    "no `ErrorInfo`": "none",
    "any, with `RetryInfo`": "waits",
}


def documented() -> tuple[tuple[str, Any, str], ...]:
    """The rows of the page, in its words."""
    section = PAGE.read_text().split("## What to do with an error\n")[1].split("\n## ")[0]
    rows = re.findall(
        r"^\| ([A-Za-z_]+) \| ([^|]+) \| (repeat|reconnect|give up) \|", section, re.MULTILINE
    )
    return tuple(
        (code, WORDS.get(reasons.strip()) or tuple(re.findall(r"`([A-Z_]+)`", reasons)), advice)
        for code, reasons, advice in rows
    )


def test_the_table_is_that_of_the_page() -> None:
    assert len(documented()) > 10
    assert documented() == ADVICE


@dataclass(frozen=True)
class Told:
    """A status as a server sends it, and what the page says of it."""

    code: str
    reason: str
    waits: bool
    advice: str

    def __str__(self) -> str:
        return f"{self.code} {self.reason}{' waits' if self.waits else ''}"

    def abort(self, context: grpc.ServicerContext) -> None:
        status = status_pb2.Status(code=code_pb2.Code.Value(self.code), message="no")
        if self.reason:
            info = error_details_pb2.ErrorInfo(reason=self.reason, domain="pawl.dev")
            status.details.append(_packed(info))
        if self.waits:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromMilliseconds(1)
            status.details.append(_packed(retry))
        if status.details:
            raw = status.SerializeToString()
            context.set_trailing_metadata((("grpc-status-details-bin", raw),))
        context.abort(getattr(grpc.StatusCode, self.code), "no")


def _packed(message: Any) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed


def statuses() -> Iterator[Told]:
    for code, reasons, advice in documented():
        if code == "any":
            continue
        if isinstance(reasons, tuple):
            yield from (Told(code, reason, False, advice) for reason in reasons)
        elif reasons == "waits":
            yield Told(code, "SOME_WORD", True, advice)
        else:
            yield Told(code, "", False, advice)
            if reasons == "any":
                yield Told(code, "SOME_WORD", False, advice)
    for code, reason in (
        ("UNKNOWN", "SOME_WORD"),
        ("INTERNAL", "INTERNAL"),
        ("RESOURCE_EXHAUSTED", "MAX_LABELS"),
        ("RESOURCE_EXHAUSTED", ""),
        ("ABORTED", "SEQ_MISMATCH"),
        ("UNAUTHENTICATED", "TOKEN_UNKNOWN"),
        ("UNIMPLEMENTED", "METHOD_UNKNOWN"),
        ("DATA_LOSS", ""),
        ("NOT_FOUND", ""),
    ):
        yield Told(code, reason, False, "give up")
    yield Told("FAILED_PRECONDITION", "PAUSED", True, "give up")


CASES = list(statuses())


class Scripted(grpc.GenericRpcHandler):
    """A server that answers by what it is given, one after the other, and then well."""

    def __init__(self) -> None:
        self.answers: list[Callable[[grpc.ServicerContext], None]] = []
        self.starts: list[run_pb2.StartRunRequest] = []
        self.streams = 0

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        name = details.method.rpartition("/")[2]
        if name == "StartRun":
            return grpc.unary_unary_rpc_method_handler(self._start)
        if name == "Work":
            return grpc.stream_stream_rpc_method_handler(self._work)
        return grpc.unary_stream_rpc_method_handler(self._records)

    def _next(self, context: grpc.ServicerContext) -> None:
        if self.answers:
            self.answers.pop(0)(context)

    def _start(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.starts.append(run_pb2.StartRunRequest.FromString(request))
        self._next(context)
        return run_pb2.StartRunResponse().SerializeToString()

    def _records(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        self.streams += 1
        self._next(context)
        yield from ()

    def _work(self, requests: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
        self.streams += 1
        next(requests)
        registered = worker_pb2.WorkerRegistered(max_message_bytes=1 << 20)
        registered.heartbeat_interval.FromSeconds(60)
        yield worker_pb2.WorkResponse(registered=registered).SerializeToString()
        # gRPC loses the status of a stream that ends under a write.
        next(requests)
        self._next(context)


@pytest.fixture
def scripted() -> Iterator[tuple[Scripted, str]]:
    server, script = grpc.server(ThreadPoolExecutor(8)), Scripted()
    server.add_generic_rpc_handlers([script])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield script, f"127.0.0.1:{port}"
    server.stop(None).wait(WAIT)


@pytest.mark.parametrize("told", CASES, ids=str)
@pytest.mark.parametrize("flavour", ["blocking", "async"])
async def test_of_a_call(scripted: tuple[Scripted, str], told: Told, flavour: str) -> None:
    script, address = scripted
    script.answers.append(told.abort)
    failed: PawlError | None = None
    try:
        if flavour == "blocking":
            with Client(address=address, token=lambda: "t") as client:
                await asyncio.to_thread(client.start, "p")
        else:
            async with AsyncClient(address=address, token=lambda: "t") as waiting:
                await waiting.start("p")
    except PawlError as error:
        failed = error
    # A refused token is asked for again, once, where a function gives it.
    again = told.advice != "give up" or told.code == "UNAUTHENTICATED"
    assert len(script.starts) == (2 if again else 1)
    assert len({request.request_id for request in script.starts}) == 1
    assert script.starts[0].request_id
    assert (failed is None) == again


@pytest.mark.parametrize("told", CASES, ids=str)
async def test_of_a_workers_stream(
    scripted: tuple[Scripted, str], told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    script, address = scripted
    twice = threading.Event()
    script.answers += [told.abort, lambda context: twice.set()]
    worker = Worker(address=address, token=lambda: "t")
    worker.prompt("calc")(lambda turn: Reply())
    with caplog.at_level(logging.WARNING, logger="pawl_client.worker"):
        task = asyncio.create_task(worker.serve())
        # A refused token is asked for again for as long as a function gives it.
        if told.advice != "give up" or told.code == "UNAUTHENTICATED":
            assert await asyncio.to_thread(twice.wait, WAIT)
            worker.stop()
            await asyncio.wait_for(task, WAIT)
            assert script.streams > 1
            return
        with pytest.raises(PawlError) as caught:
            await asyncio.wait_for(task, WAIT)
    assert caught.value.code == told.code
    assert script.streams == 1
    ends = [text for text in caplog.messages if "ends for good" in text]
    assert len(ends) == 1
    assert ends[0].endswith("no")


@pytest.mark.parametrize("reason", ["TOKEN_EXPIRED", ""])
def test_a_fixed_token_is_given_up(scripted: tuple[Scripted, str], reason: str) -> None:
    script, address = scripted
    script.answers.append(Told("UNAUTHENTICATED", reason, False, "").abort)
    with Client(address=address, token="t") as client, pytest.raises(AuthenticationError):
        client.start("p")
    assert len(script.starts) == 1


def test_a_stream_of_records_is_taken_up_again(scripted: tuple[Scripted, str]) -> None:
    script, address = scripted
    script.answers.append(Told("INTERNAL", "", False, "").abort)
    with Client(address=address) as client:
        assert list(client.transitions(follow=True)) == []
    assert script.streams == 2


def test_what_the_caller_ends_is_given_up(scripted: tuple[Scripted, str]) -> None:
    script, address = scripted
    client = Client(address=address)

    def close(context: grpc.ServicerContext) -> None:
        client.close()

    script.answers.append(close)
    with pytest.raises(CallCancelledError) as caught:
        client.start("p")
    assert (caught.value.code, advice_of(caught.value)) == ("", "give up")
    assert len(script.starts) == 1


def test_a_cancel_of_the_server_is_not_the_callers() -> None:
    def ended(text: str) -> PawlError:
        metadata = grpc.aio.Metadata()
        error = grpc.aio.AioRpcError(grpc.StatusCode.CANCELLED, metadata, metadata, details=text)
        return error_from_rpc(error, Settings(address="x:1"))

    assert advice_of(ended("CANCELLED")) == "reconnect"
    assert advice_of(ended("Stream removed (Channel closed!)")) == "give up"
