"""The stream that the drivers of a blocking client share; see `_commands`.

The counterpart of `_awaiting_stream`, for threads: one of its own reads, one of gRPC's
sends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from types import TracebackType
from typing import Any

import grpc

from pawl._blocking import Line
from pawl._commands import Commands, StreamUnknownError, late, method_of
from pawl._errors import PawlError
from pawl._flow import Invoke
from pawl._settings import Settings
from pawl._status import error_from_rpc
from pawl.v1 import run_pb2


class CommandStream:
    """As that of `_awaiting_stream`. Threads may share it."""

    def __init__(self, line: Line, settings: Settings) -> None:
        self._line, self._settings = line, settings
        self._lock = threading.Lock()
        """Guards what follows."""
        self._drivers = 0
        self._known = True
        self._stream: _Stream | None = None

    def __enter__(self) -> CommandStream:
        with self._lock:
            self._drivers += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._drivers -= 1
            if not self._drivers:
                self._leave()

    def takes(self, call: Invoke) -> bool:
        """Whether a call can be made here."""
        return self._known and self._drivers > 0 and Commands.takes(call.operation.request)

    def ask(self, call: Invoke) -> Any:
        """Makes a call, and the one behind it. Raises PawlError, StreamRefusedError."""
        operations = [call.operation] if call.then is None else [call.operation, call.then]
        end = time.monotonic() + call.timeout
        with self._lock:
            stream = self._opened()
        promises = stream.put([operation.request for operation in operations])
        try:
            answer = self._answer(promises[0], end)
            if call.then is None:
                return answer
            try:
                return answer, self._answer(promises[1], end)
            except PawlError as error:
                return answer, error
        except StreamUnknownError:
            self._known = False
            raise
        finally:
            stream.forget(promises)

    def _answer(self, promise: Future[Any], end: float) -> Any:
        try:
            return promise.result(max(end - time.monotonic(), 0))
        except Late:
            raise late(self._settings.address) from None

    def _opened(self) -> _Stream:
        if self._stream is None or self._stream.over:
            settings = self._settings
            self._stream = _Stream(
                method_of(self._line.channel), settings.metadata(), settings.address
            )
        return self._stream

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.finish()

    def close(self) -> None:
        """Ends the stream at once, and whoever waits for its answers."""
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.cancel()


class _Stream:
    """One stream and the thread that reads it."""

    def __init__(self, method: Any, metadata: Any, address: str) -> None:
        self._address = address
        self._changed = threading.Condition()
        """Guards the commands; notified when there is something to send, or nothing more."""
        self._commands = Commands()
        self._finishing = False
        self._call = method(self._messages(), metadata=metadata)
        threading.Thread(target=self._read, name="pawl-drive", daemon=True).start()

    @property
    def over(self) -> bool:
        """The next command needs another stream."""
        return self._commands.over

    def put(self, requests: list[Any]) -> list[Future[Any]]:
        """Takes commands, in this order, for a promise of each one's answer."""
        promises: list[Future[Any]] = [Future() for _ in requests]
        with self._changed:
            for request, promise in zip(requests, promises, strict=True):
                self._commands.put(request, promise)
            self._changed.notify()
        return promises

    def forget(self, promises: list[Future[Any]]) -> None:
        """Nobody waits for them any more."""
        with self._changed:
            for promise in promises:
                promise.cancel()

    def finish(self) -> None:
        """Says that nothing more is sent; the sidecar then ends the stream."""
        with self._changed:
            self._finishing = True
            self._changed.notify()

    def cancel(self) -> None:
        """Ends it at once."""
        with self._changed:
            self._commands.close()
            self._changed.notify()
        self._call.cancel()

    def _messages(self) -> Iterator[run_pb2.DriveRequest]:
        """What is sent; gRPC asks for the next message once the one before is gone."""
        while True:
            with self._changed:
                while (message := self._commands.take()) is None:
                    if self._finishing or self._commands.over:
                        return
                    self._changed.wait()
            yield message

    def _read(self) -> None:
        error: PawlError | None = None
        try:
            for response in self._call:
                with self._changed:
                    self._commands.read(response)
                    if self._commands.ready:
                        self._changed.notify()
        except grpc.RpcError as fault:
            error = error_from_rpc(fault, self._address)
        finally:
            with self._changed:
                self._commands.end(error)
                self._changed.notify()
