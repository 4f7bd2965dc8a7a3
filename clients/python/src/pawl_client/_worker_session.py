"""One registered stream of a worker: requests, receipts and received messages."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

import grpc

from pawl_client._async_io import stream_error
from pawl_client._errors import LimitError, PawlError, UnavailableError
from pawl_client._settings import Settings
from pawl_client._status import error_from_rpc, error_from_status
from pawl_client.v1 import worker_pb2

WORK = "/pawl.v1.WorkerService/Work"
"""Path of the streaming call."""

_MAX_MORE = 1023
"""Most requests in one message besides the first."""
_MAX_BYTES = 1 << 20
"""Size in bytes up to which requests share a message."""
_FRAME_BYTES = 8
"""Most bytes that sharing a message adds to a request."""


class SessionEndedError(Exception):
    """The stream ended before the receipt; the outcome of the request is unknown."""


_Waiting: TypeAlias = "tuple[worker_pb2.WorkRequest, int, asyncio.Future[None] | None]"
"""A request to send, its size in bytes, and the future that is resolved when it was sent."""


class WorkerSession:
    """One stream. Belongs to the event loop that created it.

    One task at a time writes. Requests that arrive during a write wait, and are then sent together
    in one message.
    """

    def __init__(self, call: Any, settings: Settings) -> None:
        self._call, self._settings = call, settings
        self._receipts: dict[int, asyncio.Future[worker_pb2.WorkReceipt]] = {}
        self._last = 0
        self._over = False
        self._max_bytes = 0
        self._waiting: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None

    async def register(self, request: worker_pb2.WorkRequest) -> worker_pb2.WorkerRegistered:
        """Sends the registration and returns its answer. Raises PawlError."""
        try:
            await self._call.write(request)
            answer = await self._call.read()
        except grpc.RpcError as error:
            raise error_from_rpc(error, self._settings) from None
        except asyncio.InvalidStateError:
            raise await self.error() from None
        if answer is grpc.aio.EOF:
            raise await self.error()
        registered: worker_pb2.WorkerRegistered = answer.registered
        self._max_bytes = registered.max_message_bytes
        return registered

    async def error(self) -> PawlError:
        """Returns why the stream ended."""
        error = await stream_error(self._call, self._settings)
        return error or UnavailableError(
            f"the sidecar at {self._settings.place} ended the stream", code="UNAVAILABLE"
        )

    def post(
        self, request: worker_pb2.WorkRequest, sent: asyncio.Future[None] | None = None
    ) -> None:
        """Queues a request; `sent` is resolved when it was sent. Raises SessionEndedError,
        LimitError.
        """
        size = request.ByteSize()
        if self._max_bytes and size > self._max_bytes:
            raise LimitError(
                f"message: {size} bytes, the sidecar accepts at most {self._max_bytes}; keep large "
                "content beside the run with put_blob, or raise serve --limits-message-bytes",
                reason="MESSAGE_TOO_LARGE",
                metadata={"limit": str(self._max_bytes), "got": str(size)},
            )
        if self._over:
            raise SessionEndedError
        self._waiting.append((request, size, sent))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())

    async def send(self, request: worker_pb2.WorkRequest) -> None:
        """Sends a request and returns when it was sent. Raises SessionEndedError, LimitError."""
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.post(request, sent)
        await sent

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch = self._next_batch()
                first, more = batch[0][0], [request for request, _, _ in batch[1:]]
                if more:
                    first.more.extend(more)
                await self._call.write(first)
                for _, _, sent in batch:
                    if sent is not None and not sent.done():
                        sent.set_result(None)
        except (grpc.RpcError, asyncio.InvalidStateError, asyncio.CancelledError):
            for _, _, sent in batch:
                _fail(sent)
            self._end()
        finally:
            self._writer = None

    def _next_batch(self) -> list[_Waiting]:
        """Returns the waiting requests that fit into the next message."""
        batch = [self._waiting.popleft()]
        total, most = batch[0][1], min(self._max_bytes or _MAX_BYTES, _MAX_BYTES)
        while self._waiting and len(batch) <= _MAX_MORE:
            total += self._waiting[0][1] + _FRAME_BYTES
            if total > most:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def request_receipt(self, request: worker_pb2.WorkRequest) -> worker_pb2.WorkReceipt:
        """Sends a request and returns its receipt. Raises the receipt's error."""
        self._last += 1
        request.id = self._last
        future: asyncio.Future[worker_pb2.WorkReceipt] = asyncio.get_running_loop().create_future()
        self._receipts[request.id] = future
        try:
            self.post(request)
            receipt = await future
        finally:
            self._receipts.pop(request.id, None)
        if receipt.HasField("error"):
            raise error_from_status(receipt.error)
        return receipt

    async def receive(self, take: Callable[[worker_pb2.WorkResponse], None]) -> PawlError:
        """Processes received messages until the stream ends, and returns why it ended."""
        try:
            while (response := await self._call.read()) is not grpc.aio.EOF:
                self._take(response, take)
                for more in response.more:
                    self._take(more, take)
        except grpc.RpcError as error:
            return error_from_rpc(error, self._settings)
        finally:
            self._end()
        return await self.error()

    def _take(
        self,
        response: worker_pb2.WorkResponse,
        take: Callable[[worker_pb2.WorkResponse], None],
    ) -> None:
        if response.HasField("receipt"):
            self._receipt(response.receipt)
        else:
            take(response)

    def close(self) -> None:
        """Ends the stream."""
        self._end()
        self._call.cancel()

    def _receipt(self, receipt: worker_pb2.WorkReceipt) -> None:
        future = self._receipts.get(receipt.id)
        if future is not None and not future.done():
            future.set_result(receipt)

    def _end(self) -> None:
        self._over = True
        for _, _, sent in self._waiting:
            _fail(sent)
        self._waiting.clear()
        for future in self._receipts.values():
            _fail(future)


def _fail(future: asyncio.Future[Any] | None) -> None:
    if future is not None and not future.done():
        future.set_exception(SessionEndedError())
