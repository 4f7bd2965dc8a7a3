"""Blobs through a real sidecar: every kind of data, both clients, lost connections."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pawl_client import (
    AsyncClient,
    BlobHead,
    Client,
    ConflictError,
    DeadlineError,
    LimitError,
    NotFoundError,
    PositionError,
    RequestError,
    ServerError,
    StreamGapError,
    UnavailableError,
    blob_ref,
)
from pawl_client import _blobs as blobs
from pawl_client._advice import repeatable
from pawl_client._blobs import Download
from pawl_client.testing import Sidecar
from pawl_client.v1 import run_pb2
from proxy import Proxy

SIZES = [0, 9, blobs.PIECE_BYTES, blobs.WINDOW_BYTES, blobs.WINDOW_BYTES + 1]


def some(size: int) -> bytes:
    """Bytes that no other test has."""
    return os.urandom(size)


def in_pieces(data: bytes) -> Iterator[bytes]:
    """Pieces of odd sizes, empty ones among them."""
    for at in range(0, len(data), 300_001):
        yield b""
        yield data[at : at + 300_001]


async def later(data: bytes) -> AsyncIterator[bytes]:
    for piece in in_pieces(data):
        yield piece


def a_file(data: bytes, path: Path) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("size", SIZES)
def test_bytes_come_back(client: Client, size: int) -> None:
    data = some(size)
    put = client.put_blob(data, media_type="image/png")
    empty = size == 0  # All callers share the one empty blob.
    assert put == BlobHead(ref=blob_ref(data), size=size, duplicate=put.duplicate and empty)
    assert str(put) == put.ref
    assert client.put_blob(data).duplicate
    assert client.get_blob(put) == data
    pieces = list(client.stream_blob(put.ref))
    assert b"".join(piece.data for piece in pieces) == data
    assert {piece.size for piece in pieces} == {size}
    assert empty or {piece.media_type for piece in pieces} == {"image/png"}
    assert max(len(piece.data) for piece in pieces) <= 1 << 20


@pytest.mark.parametrize("form", ["iterable", "file", "path", "view"])
def test_every_kind_of_data(client: Client, tmp_path: Path, form: str) -> None:
    data = some(blobs.WINDOW_BYTES + 77)
    forms: dict[str, Callable[[], Any]] = {
        "iterable": lambda: in_pieces(data),
        "file": lambda: io.BytesIO(data),
        "path": lambda: a_file(data, tmp_path / "f"),
        "view": lambda: memoryview(data),
    }
    put = client.put_blob(forms[form]())
    assert (put.ref, put.size, put.duplicate) == (blob_ref(data), len(data), False)
    assert client.put_blob(forms[form]()).duplicate
    assert client.get_blob(put.ref) == data


def test_text_is_its_utf8(client: Client) -> None:
    assert client.get_blob(client.put_blob("ä")) == b"\xc3\xa4"


@pytest.mark.parametrize("size", SIZES)
async def test_the_asynchronous_client(sidecar: Sidecar, size: int) -> None:
    data = some(size)
    async with sidecar.async_client() as client:
        put = await client.put_blob(later(data), media_type="text/plain")
        assert (put.ref, put.size) == (blob_ref(data), size)
        assert (await client.put_blob(data)).duplicate
        assert await client.get_blob(put) == data
        pieces = [piece async for piece in client.stream_blob(put, offset=size // 2)]
        assert b"".join(piece.data for piece in pieces) == data[size // 2 :]


def test_a_part_of_it(client: Client) -> None:
    data = some(700_000)
    put = client.put_blob(data)
    for offset in (0, 1, 300_000, 700_000):
        pieces = list(client.stream_blob(put, offset=offset))
        assert pieces[0].offset == offset
        assert b"".join(piece.data for piece in pieces) == data[offset:]
    with pytest.raises(PositionError) as caught:
        list(client.stream_blob(put, offset=700_001))
    assert caught.value.reason == "BLOB_OFFSET"
    with pytest.raises(ValueError, match="offset: must be at least 0, not -1"):
        client.stream_blob(put, offset=-1)


def test_what_is_not_there_or_no_reference(client: Client) -> None:
    with pytest.raises(NotFoundError) as caught:
        client.get_blob(blob_ref(some(9)))
    assert caught.value.reason == "BLOB_NOT_FOUND"
    with pytest.raises(RequestError) as bad:
        client.get_blob("blob:x")
    assert bad.value.violations[0][0] == "blob_ref"


def test_a_blob_that_is_too_large(client: Client) -> None:
    with pytest.raises(LimitError) as caught:
        client.put_blob(bytes(blobs.WINDOW_BYTES) for _ in range(9))
    assert caught.value.reason == "BLOB_TOO_LARGE"
    assert caught.value.limit == 64 << 20


def test_what_cannot_be_stored(client: Client) -> None:
    with pytest.raises(TypeError, match=r"data: must be bytes, str, Path, .* not int"):
        client.put_blob(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="data: its pieces must be bytes, not str"):
        client.put_blob(["text"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="need AsyncClient"):
        client.put_blob(later(b"x"))  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        client.put_blob(Path("/no/such/file"))


def test_an_error_of_the_data_is_the_callers(client: Client, tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x"
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        client.put_blob(broken())


def cut_in_the_midst(proxy: Proxy, data: bytes) -> Iterator[bytes]:
    """Yields the data. Its connection breaks while the last window is being sent."""
    yield data[: blobs.WINDOW_BYTES + 1]
    proxy.cut_after = 1 << 20
    yield data[blobs.WINDOW_BYTES + 1 :]


def test_an_upload_over_a_lost_connection(sidecar: Sidecar) -> None:
    data = some(blobs.WINDOW_BYTES + 5_000_000)
    with Proxy(sidecar.address) as proxy, Client(address=proxy.address) as client:
        put = client.put_blob(cut_in_the_midst(proxy, data))
        assert proxy.cuts == 1
        assert (put.ref, put.size, put.duplicate) == (blob_ref(data), len(data), False)
        assert client.get_blob(put) == data


async def test_an_asynchronous_upload_over_a_lost_connection(sidecar: Sidecar) -> None:
    data = some(blobs.WINDOW_BYTES + 5_000_000)
    with Proxy(sidecar.address) as proxy:
        async with AsyncClient(address=proxy.address) as client:
            put = await client.put_blob(cut_in_the_midst(proxy, data))
            assert proxy.cuts == 1
            assert (put.ref, put.size) == (blob_ref(data), len(data))
            assert await client.get_blob(put) == data


def test_a_download_over_lost_connections(sidecar: Sidecar, client: Client) -> None:
    data = some(5_000_000)
    put = client.put_blob(data)
    read = b""
    with Proxy(sidecar.address) as proxy, Client(address=proxy.address) as reader:
        for piece in reader.stream_blob(put):
            assert piece.offset == len(read)
            read += piece.data
            if proxy.connections <= 2:
                proxy.cut()
        assert proxy.connections > 1
    assert read == data


def test_an_upload_that_another_process_goes_on_with(sidecar: Sidecar, client: Client) -> None:
    data = some(blobs.WINDOW_BYTES + 1_000_000)

    def breaks() -> Iterator[bytes]:
        yield data[:-500_000]
        raise ConnectionError("the first process ended here")

    upload_id = hashlib.sha256(data).hexdigest()
    with pytest.raises(ConnectionError):
        client.put_blob(breaks(), upload_id=upload_id)
    sent: list[int] = []
    pieces = blobs.Upload._messages

    def counting(*arguments: Any) -> Iterator[run_pb2.PutBlobRequest]:
        for message in pieces(*arguments):
            sent.append(len(message.data))
            yield message

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blobs.Upload, "_messages", counting)
        put = client.put_blob(in_pieces(data), upload_id=upload_id)
    assert (put.ref, put.duplicate) == (blob_ref(data), False)
    assert sum(sent) == len(data) - blobs.WINDOW_BYTES, "the first window was there already"


def test_other_data_under_the_id_of_an_upload(client: Client) -> None:
    def breaks() -> Iterator[bytes]:
        yield some(blobs.WINDOW_BYTES + 1)
        raise ConnectionError

    upload_id = hashlib.sha256(some(8)).hexdigest()
    with pytest.raises(ConnectionError):
        client.put_blob(breaks(), upload_id=upload_id)
    with pytest.raises(RequestError) as caught:
        client.put_blob(some(blobs.WINDOW_BYTES + 2), upload_id=upload_id)
    assert caught.value.reason == "BLOB_MISMATCH"


def test_nobody_takes_it() -> None:
    with Client(address="127.0.0.1:1", retry_for=0.2) as client:
        with pytest.raises(UnavailableError):
            client.put_blob(b"x")
        with pytest.raises(UnavailableError):
            client.get_blob(blob_ref(b"x"))


def piece(offset: int, data: bytes, size: int = 4) -> run_pb2.GetBlobResponse:
    return run_pb2.GetBlobResponse(size=size, offset=offset, data=data)


def test_a_download_proves_what_it_read() -> None:
    ref = blob_ref(b"abcd")
    reader = Download(namespace="", ref=ref)
    assert reader.read(piece(0, b"ab")) is not None
    with pytest.raises(StreamGapError, match="received byte 3, expected byte 2"):
        reader.read(piece(3, b"d"))
    with pytest.raises(StreamGapError, match="the stream ended at byte 2 of 4"):
        reader.end()
    assert reader.request().offset == 2
    with pytest.raises(DeadlineError):
        reader.whole(b"ab", 1.0)
    reader.read(piece(2, b"cd"))
    reader.end()
    assert reader.whole(b"abcd", 1.0) == b"abcd"
    other = Download(namespace="", ref=ref)
    other.read(piece(0, b"abXd"))
    with pytest.raises(ServerError) as caught:
        other.end()
    assert caught.value.reason == "BLOB_DIGEST"


def test_a_contended_upload_is_tried_again() -> None:
    busy = ConflictError("busy", code="ABORTED", reason="UPLOAD_CONTENDED")
    taken = ConflictError("taken", code="ALREADY_EXISTS", reason="PACK_VERSION_TAKEN")
    assert repeatable(busy)
    assert not repeatable(taken)
