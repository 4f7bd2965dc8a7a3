"""Stores and reads blobs: large content beside the runs, addressed by its digest."""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

from pawl_client._advice import repeatable
from pawl_client._convert import from_proto
from pawl_client._errors import DeadlineError, PawlError, ServerError, StreamGapError
from pawl_client._flow import Backoff, Flow, Handle, Send, Sleep, new_id
from pawl_client._settings import Settings
from pawl_client._streams import Reader
from pawl_client._values import BlobHead, BlobPiece, blob_ref
from pawl_client.v1 import run_pb2

PUT = "/pawl.v1.RunService/PutBlob"
GET = "/pawl.v1.RunService/GetBlob"
PIECE_BYTES = 256 * 1024
"""Bytes of one message; the server stores pieces of this size."""
WINDOW_BYTES = 8 << 20
"""Bytes that are kept in memory until the server has stored them."""

BlobData: TypeAlias = "bytes | str | Path | IO[bytes] | Iterable[bytes]"
"""Content that can be stored: bytes, text (as UTF-8), a file by its Path, a binary file that is
read from its current position, or an iterable of pieces, which is read once.
"""

AsyncBlobData: TypeAlias = "BlobData | AsyncIterable[bytes]"
"""As `BlobData`, or an asynchronous iterable of pieces."""


@dataclass(slots=True)
class Source:
    """A source of content. `pull` returns the next bytes and None at the end; for an asynchronous
    iterable it returns an awaitable of these.
    """

    pull: Callable[[], Any]
    ref: str = ""
    """The blob's reference, if it is known before the end; else empty."""
    close: Callable[[], None] = lambda: None


def source_of(data: AsyncBlobData) -> Source:
    """Returns the source of the content. Raises TypeError for a value of another type."""
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        whole = bytes(data)
        return Source(_reading(io.BytesIO(whole)), blob_ref(whole))
    if isinstance(data, Path):
        file = data.open("rb")
        return Source(_reading(file), close=file.close)
    if hasattr(data, "read"):
        return Source(_reading(data))
    if isinstance(data, AsyncIterable):
        pieces = data.__aiter__()
        return Source(lambda: _next(pieces))
    if isinstance(data, Iterable):
        iterator = iter(data)
        return Source(lambda: next(iterator, None))
    raise TypeError(
        "data: must be bytes, str, Path, a binary file or an iterable of bytes, not"
        f" {type(data).__name__}"
    )


def _reading(file: Any) -> Callable[[], Any]:
    return lambda: file.read(PIECE_BYTES) or None


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    async for piece in pieces:
        return piece
    return None


@dataclass(slots=True)
class Upload:
    """One blob that is being uploaded.

    It is sent window by window. A window is kept until the server has stored it. An interrupted
    upload therefore continues at the server's position, even if its source can be read only once.
    """

    namespace: str
    settings: Settings
    source: Source
    media_type: str
    upload_id: str
    timeout: float
    _doubtful: bool = field(default=False, init=False)
    _digest: Any = field(default_factory=hashlib.sha256, init=False)
    _rest: bytes = field(default=b"", init=False)

    def put(self) -> Flow[BlobHead]:
        """Stores the whole blob."""
        # The server may already have a part of an upload that the caller named.
        self._doubtful = bool(self.upload_id)
        self.upload_id = self.upload_id or new_id()
        begin = 0
        try:
            while True:
                window, last = yield from self._window()
                answer = yield from self._transfer(window, begin, last)
                if answer.blob_ref:
                    head: BlobHead = from_proto(answer)
                    return head
                if last:
                    raise ServerError(
                        f"upload {self.upload_id}: the server ended it without a blob; repeat it"
                    )
                begin += len(window)
        finally:
            self.source.close()

    def _window(self) -> Flow[tuple[bytes, bool]]:
        """Returns the next bytes, and whether they are the last ones."""
        pieces, size, last = [self._rest], len(self._rest), False
        while size <= WINDOW_BYTES and not last:
            piece = yield Handle(self.source.pull, ())
            last = piece is None
            if not last:
                pieces.append(checked(piece))
                size += len(pieces[-1])
        whole = b"".join(pieces)
        window, self._rest = whole[:WINDOW_BYTES], whole[WINDOW_BYTES:]
        self._digest.update(window)
        return window, last and not self._rest

    def _transfer(self, window: bytes, begin: int, last: bool) -> Flow[run_pb2.PutBlobResponse]:
        """Sends a window. After a failure it first asks the server for its position."""
        if last:
            self.source.ref = f"blob:sha256:{self._digest.hexdigest()}"
        backoff, waited = Backoff(), 0.0
        while True:
            try:
                return (yield from self._try(window, begin, last))
            except PawlError as error:
                pause = max(backoff.next(), error.retry_after or 0.0)
                waited += pause
                if not repeatable(error) or waited > self.settings.retry_for:
                    raise
                self._doubtful = True
            yield Sleep(pause)

    def _try(self, window: bytes, begin: int, last: bool) -> Flow[run_pb2.PutBlobResponse]:
        start = begin
        if self._doubtful:
            known: run_pb2.PutBlobResponse = yield self._send(lambda: [self._message()])
            if known.blob_ref:
                return known
            start = min(max(known.size, begin), begin + len(window))
        answer: run_pb2.PutBlobResponse
        answer = yield self._send(lambda: self._messages(window, begin, start, last))
        self._doubtful = False
        return answer

    def _send(self, messages: Callable[[], Iterable[run_pb2.PutBlobRequest]]) -> Send:
        return Send(PUT, run_pb2.PutBlobRequest, messages, run_pb2.PutBlobResponse, self.timeout)

    def _messages(
        self, window: bytes, begin: int, start: int, last: bool
    ) -> Iterator[run_pb2.PutBlobRequest]:
        end = begin + len(window)
        while True:
            data = window[start - begin : start - begin + PIECE_BYTES]
            message = self._message(offset=start, data=data)
            start += len(data)
            message.last = last and start == end
            yield message
            if start == end:
                return

    def _message(self, *, offset: int = 0, data: bytes = b"") -> run_pb2.PutBlobRequest:
        return run_pb2.PutBlobRequest(
            namespace=self.namespace,
            upload_id=self.upload_id,
            media_type=self.media_type,
            blob_ref=self.source.ref,
            offset=offset,
            data=data,
        )


def checked(piece: Any) -> bytes:
    """Returns a piece of a source as bytes. Raises TypeError for a value that is not bytes."""
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        raise TypeError(f"data: its pieces must be bytes, not {type(piece).__name__}")
    return bytes(piece)


@dataclass(slots=True, kw_only=True)
class Download(Reader[BlobPiece]):
    """A reader of one blob, from an offset on."""

    path = GET
    response = run_pb2.GetBlobResponse
    ref: str
    offset: int = 0
    done: bool = False
    _whole: bool = field(default=False, init=False)
    _digest: Any = field(default_factory=hashlib.sha256, init=False)
    _size: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise ValueError(f"offset: must be at least 0, not {self.offset}")
        self._whole = self.offset == 0

    def request(self) -> run_pb2.GetBlobRequest:
        """See `Reader.request`."""
        return run_pb2.GetBlobRequest(
            namespace=self.namespace, blob_ref=self.ref, offset=self.offset
        )

    def read(self, item: run_pb2.GetBlobResponse) -> BlobPiece | None:
        """See `Reader.read`. Raises StreamGapError for a piece that is not the next one."""
        if item.offset != self.offset:
            raise StreamGapError(
                f"{self.ref}: received byte {item.offset}, expected byte {self.offset}"
            )
        self._digest.update(item.data)
        self.offset, self._size = self.offset + len(item.data), item.size
        self._progress()
        piece: BlobPiece = from_proto(item)
        return piece

    def end(self) -> None:
        """See `Reader.end`. Checks the digest of a blob that was read from its beginning."""
        if self.offset < self._size:
            raise StreamGapError(
                f"{self.ref}: the stream ended at byte {self.offset} of {self._size}"
            )
        if self._whole and f"blob:sha256:{self._digest.hexdigest()}" != self.ref:
            raise ServerError(
                f"{self.ref}: the received data has another digest", reason="BLOB_DIGEST"
            )
        self.done = True

    def whole(self, data: bytes, timeout: float) -> bytes:
        """Returns the data if it is the whole blob. Raises DeadlineError otherwise."""
        if not self.done:
            raise DeadlineError(
                f"{self.ref}: not read within {timeout} s; give a longer timeout or use stream_blob"
            )
        return data
