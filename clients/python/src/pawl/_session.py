"""One registered stream of a worker: requests, their receipts, and what it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from pawl._errors import LimitError, PawlError, UnavailableError
from pawl._status import error_from_rpc, error_from_status
from pawl.v1 import worker_pb2

WORK = "/pawl.v1.WorkerService/Work"
"""Path of the streaming call."""


class SessionOverError(Exception):
    """The stream ended before the receipt; nobody knows whether it took effect."""


class Session:
    """One stream. Belongs to the event loop that made it."""

    def __init__(self, call: Any, address: str) -> None:
        self._call, self._address = call, address
        self._sending = asyncio.Lock()
        self._receipts: dict[int, asyncio.Future[worker_pb2.WorkReceipt]] = {}
        self._last = 0
        self._over = False
        self._max_bytes = 0

    async def register(self, request: worker_pb2.WorkRequest) -> worker_pb2.WorkerRegistered:
        """Sends the registration and returns its answer. Raises PawlError."""
        try:
            await self._call.write(request)
            answer = await self._call.read()
        except grpc.RpcError as error:
            raise error_from_rpc(error, self._address) from None
        except asyncio.InvalidStateError:
            raise await self.error() from None
        if answer is grpc.aio.EOF:
            raise await self.error()
        registered: worker_pb2.WorkerRegistered = answer.registered
        self._max_bytes = registered.max_message_bytes
        return registered

    async def error(self) -> PawlError:
        """Why the stream ended."""
        code, text = await self._call.code(), await self._call.details()
        if code is grpc.StatusCode.OK:
            return UnavailableError(
                f"the sidecar at {self._address} ended the stream", code="UNAVAILABLE"
            )
        metadata = await self._call.trailing_metadata()
        return error_from_rpc(
            grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, details=text),
            self._address,
        )

    async def send(self, request: worker_pb2.WorkRequest) -> None:
        """Sends a request without waiting. Raises SessionOverError, LimitError."""
        size = request.ByteSize()
        if self._max_bytes and size > self._max_bytes:
            raise LimitError(
                f"message: {size} bytes, the sidecar takes {self._max_bytes}",
                reason="MESSAGE_TOO_LARGE",
                metadata={"limit": str(self._max_bytes), "got": str(size)},
            )
        if self._over:
            raise SessionOverError
        try:
            async with self._sending:
                await self._call.write(request)
        except (grpc.RpcError, asyncio.InvalidStateError):
            raise SessionOverError from None

    async def ask(self, request: worker_pb2.WorkRequest) -> worker_pb2.WorkReceipt:
        """Sends a request and returns its receipt. Raises the receipt's error."""
        self._last += 1
        request.id = self._last
        future: asyncio.Future[worker_pb2.WorkReceipt] = asyncio.get_running_loop().create_future()
        self._receipts[request.id] = future
        try:
            await self.send(request)
            receipt = await future
        finally:
            self._receipts.pop(request.id, None)
        if receipt.HasField("error"):
            raise error_from_status(receipt.error)
        return receipt

    async def receive(self, take: Callable[[worker_pb2.WorkResponse], None]) -> PawlError:
        """Takes what is sent until the stream ends, and returns why it did."""
        try:
            while (response := await self._call.read()) is not grpc.aio.EOF:
                if response.WhichOneof("item") == "receipt":
                    self._receipt(response.receipt)
                else:
                    take(response)
        except grpc.RpcError as error:
            return error_from_rpc(error, self._address)
        finally:
            self._end()
        return await self.error()

    def close(self) -> None:
        """Ends the stream."""
        self._call.cancel()

    def _receipt(self, receipt: worker_pb2.WorkReceipt) -> None:
        future = self._receipts.get(receipt.id)
        if future is not None and not future.done():
            future.set_result(receipt)

    def _end(self) -> None:
        self._over = True
        for future in self._receipts.values():
            if not future.done():
                future.set_exception(SessionOverError())
