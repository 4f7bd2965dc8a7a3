"""The stream that the drivers of an asynchronous client share; see `_commands`."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import grpc

from pawl._awaiting import Line, end_of
from pawl._commands import Commands, StreamUnknownError, late, method_of
from pawl._errors import PawlError
from pawl._flow import Invoke
from pawl._settings import Settings
from pawl._status import error_from_rpc


class CommandStream:
    """Open from the first command of a driver until no driver is at work.

    Drivers enter it. A stream that broke is replaced by the next command. What is ready
    while a message is on its way goes together in the next.
    """

    def __init__(self, line: Line, settings: Settings) -> None:
        self._line, self._settings = line, settings
        self._drivers = 0
        self._known = True
        self._stream: _Stream | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> CommandStream:
        self._drivers += 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._drivers -= 1
        if not self._drivers:
            self._leave()

    def takes(self, call: Invoke) -> bool:
        """Whether a call can be made here."""
        return self._known and self._drivers > 0 and Commands.takes(call.operation.request)

    async def ask(self, call: Invoke) -> Any:
        """Makes a call, and the one behind it. Raises PawlError, StreamRefusedError."""
        stream, loop = self._opened(), asyncio.get_running_loop()
        first: asyncio.Future[Any] = loop.create_future()
        stream.commands.put(call.operation.request, first)
        both = [first]
        if call.then is not None:
            both.append(loop.create_future())
            stream.commands.put(call.then.request, both[1])
        if stream.commands.ready:
            stream.wake()
        timer = loop.call_later(call.timeout, self._late, both)
        try:
            answer = await first
            return answer if call.then is None else (answer, await _settled(both[1]))
        except StreamUnknownError:
            self._known = False
            raise
        finally:
            timer.cancel()
            for one in both:
                if not one.cancel() and not one.cancelled():
                    one.exception()  # Nobody else asks for it.

    def _late(self, promises: list[asyncio.Future[Any]]) -> None:
        for promise in promises:
            if not promise.done():
                promise.set_exception(late(self._settings.address))

    def _opened(self) -> _Stream:
        if self._stream is None or self._stream.commands.over:
            self._leave()
            settings = self._settings
            self._stream = _Stream(
                method_of(self._line.channel)(metadata=settings.metadata()), settings.address
            )
        return self._stream

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            self._ending.add(stream.reader)
            stream.reader.add_done_callback(self._ending.discard)
            stream.finish()

    async def close(self) -> None:
        """Ends the stream, and those that end already."""
        if self._stream is not None:
            self._stream.closing = True
        self._leave()
        if self._ending:
            for reader in self._ending:
                reader.cancel()
            await asyncio.wait(set(self._ending))


class _Stream:
    """One stream and the tasks that read it and write to it."""

    def __init__(self, call: Any, address: str) -> None:
        self.commands = Commands()
        self._call, self._address = call, address
        self.reader = asyncio.create_task(self._read())
        self._writer: asyncio.Task[None] | None = None
        self._finishing = False
        self.closing = False
        """The client ends it, with a cancellation of the reader."""

    def wake(self) -> None:
        """There is something to send, or room for it."""
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while (message := self.commands.take()) is not None:
                await self._call.write(message)
            if self._finishing:
                await self._call.done_writing()
        except (grpc.RpcError, asyncio.InvalidStateError, asyncio.CancelledError):
            pass  # The reader is told why.
        finally:
            self._writer = None

    async def _read(self) -> None:
        error: PawlError | None = None
        try:
            while (response := await self._call.read()) is not grpc.aio.EOF:
                self.commands.read(response)
                if self.commands.ready:
                    self.wake()
            error = await end_of(self._call, self._address)
        except grpc.RpcError as fault:
            error = error_from_rpc(fault, self._address)
        except asyncio.CancelledError:
            # That of the client, or what grpc.aio makes of a stream that ends CANCELLED.
            self._call.cancel()
            if self.closing:
                self.commands.close()
        finally:
            self.commands.end(error)

    def finish(self) -> None:
        """Says that nothing more is sent; the sidecar then ends the stream."""
        self._finishing = True
        self.wake()


async def _settled(promise: asyncio.Future[Any]) -> Any:
    """The answer that a promise gets, or its error as a value."""
    try:
        return await promise
    except PawlError as error:
        return error
