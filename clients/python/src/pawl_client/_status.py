"""Converts a gRPC status to an error of this package."""

from __future__ import annotations

import re

import grpc
from google.rpc import code_pb2, error_details_pb2, status_pb2

from pawl_client._convert import record_from_proto
from pawl_client._errors import (
    CallCancelledError,
    LimitError,
    PawlError,
    SeqMismatchError,
    UnavailableError,
    error_of,
)
from pawl_client.v1 import record_pb2

_DETAILS = "grpc-status-details-bin"
_LOST_STREAM = (
    "stream removed",
    "rst_stream",
    "goaway",
    "connection reset",
    "socket closed",
    "internal error from core",  # The error of grpc.aio for a write on a broken connection.
)

_OWN_CANCELS = ("Locally cancelled by application!", "Channel closed!")
"""gRPC's texts for a call that this process ended; the server did not send CANCELLED."""

_NO_HTTP2 = (
    "what listens there answers without HTTP/2, so it is no gRPC port; take the address that "
    "the sidecar prints as grpc when it starts"
)


def error_from_status(status: status_pb2.Status) -> PawlError:
    """Returns the error of a google.rpc.Status, with its details."""
    info = error_details_pb2.ErrorInfo()
    bad, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    retry_after: float | None = None
    winner = record_pb2.Record()
    for detail in status.details:
        detail.Unpack(info)
        detail.Unpack(bad)
        detail.Unpack(winner)
        if detail.Unpack(retry):
            retry_after = retry.retry_delay.ToTimedelta().total_seconds()
    error_of_status = error_of(
        code_pb2.Code.Name(status.code) if status.code in code_pb2.Code.values() else "UNKNOWN",
        status.message,
        reason=info.reason,
        metadata=dict(info.metadata),
        violations=tuple((v.field, v.description) for v in bad.field_violations),
        retry_after=retry_after,
    )
    if isinstance(error_of_status, SeqMismatchError) and winner.seq:
        error_of_status.winner = record_from_proto(winner)
    return error_of_status


def error_from_rpc(error: grpc.RpcError, address: str) -> PawlError:
    """Returns the error of a failed call, sync or async. It names the address if the sidecar sent
    no details.
    """
    call: grpc.Call = error  # type: ignore[assignment]
    for key, value in call.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            return error_from_status(status_pb2.Status.FromString(value))
    code, text = call.code().name, f"sidecar at {address}: {call.details() or call.code().name}"
    if (sizes := _TOO_LARGE.search(text)) is not None:
        return _too_large(sizes, code, address)
    if "http1.x" in text:
        return UnavailableError(f"sidecar at {address}: {_NO_HTTP2}", code=code)
    if code == "CANCELLED" and any(words in text for words in _OWN_CANCELS):
        return CallCancelledError(text)
    # gRPC reports a connection that breaks during a call in several ways.
    if code in ("UNKNOWN", "INTERNAL") and any(word in text.lower() for word in _LOST_STREAM):
        return UnavailableError(text, code=code)
    return error_of(code, text)


_TOO_LARGE = re.compile(r"(\S+) message larger than max \((\d+) vs\. (\d+)\)")
"""gRPC's own refusal of a message: its direction, its size and the limit."""


def _too_large(sizes: re.Match[str], code: str, address: str) -> LimitError:
    """Returns the error of a message that is too large for one side, with what to do about it."""
    side, got, limit = sizes.groups()
    texts = {
        "Sent": f"request: {got} bytes, this client sends at most {limit} (max_message_bytes); "
        "keep large content beside the run with put_blob",
        "Received": f"answer: {got} bytes, this client reads at most {limit}; raise "
        "max_message_bytes, or request a smaller page",
    }
    server = (
        f"request: {got} bytes are more than the sidecar at {address} accepts; send less, keep "
        "large content beside the run with put_blob, or raise serve --limits-message-bytes"
    )
    return LimitError(
        texts.get(side, server),
        code=code,
        reason="MESSAGE_TOO_LARGE",
        metadata={"limit": limit, "got": got},
    )
