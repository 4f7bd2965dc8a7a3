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
from pawl_client._settings import Settings
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


def error_from_rpc(error: grpc.RpcError, settings: Settings) -> PawlError:
    """Returns the error of a failed call, sync or async. It names the address if the sidecar sent
    no details.
    """
    address = settings.place
    call: grpc.Call = error  # type: ignore[assignment]
    for key, value in call.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            return error_from_status(status_pb2.Status.FromString(value))
    code, text = call.code().name, f"sidecar at {address}: {call.details() or call.code().name}"
    if (sizes := _TOO_LARGE.search(text)) is not None:
        return _too_large(sizes, code, address)
    if "http1.x" in text:
        return UnavailableError(f"sidecar at {address}: {_NO_HTTP2}", code=code)
    if code == "UNAVAILABLE" and (unreachable := _unreachable(text, settings)) is not None:
        return unreachable
    if code == "CANCELLED" and any(words in text for words in _OWN_CANCELS):
        return CallCancelledError(text)
    # gRPC reports a connection that breaks during a call in several ways.
    if code in ("UNKNOWN", "INTERNAL") and any(word in text.lower() for word in _LOST_STREAM):
        return UnavailableError(text, code=code)
    return error_of(code, text)


_CAUSES: tuple[tuple[str, str], ...] = (
    ("connection refused", "nothing listens there; start one with: pawl serve --data DIR"),
    (
        "no such file or directory",
        "there is no such socket; start one with: pawl serve --data DIR --socket PATH",
    ),
    ("domain name not found", "no host has that name"),
    ("dns resolution failed", "no host has that name"),
)
"""Parts of gRPC's texts for an address without a sidecar, in lower case, and what they mean. The
command line has the same words.
"""

_TLS_FAULTS: tuple[tuple[str, str], ...] = (
    ("certificate_verify_failed", "its certificate is not trusted: {ca} did not sign it"),
    (
        "hostname verification check failed",
        "its certificate is not trusted: it is for another name; give Tls(server_name=...)",
    ),
    (
        "failed to create security handshaker",
        "{ca} holds no certificate, or the client's certificate and key do not fit",
    ),
    ("wrong_version_number", "it speaks no TLS: leave tls= and PAWL_CA out"),
    (
        "unwrap failed",
        "it requires a certificate of the client that it trusts: name it in Tls(cert=..., "
        "key=...), or PAWL_CERT and PAWL_KEY",
    ),
)
"""As `_CAUSES`, for TLS. A repetition meets the same fault."""

_NO_TLS = (
    "it speaks TLS, or is no sidecar: name the CA of its certificate in tls=Tls(ca=...), or PAWL_CA"
)


def _unreachable(text: str, settings: Settings) -> UnavailableError | None:
    """Returns the error of a connection that cannot be made, with the cause and a remedy."""
    low, code = text.lower(), "UNAVAILABLE"
    cause = next((says for has, says in _CAUSES if has in low), "")
    if not cause and settings.tls is not None:
        ca = "the CA of gRPC" if settings.tls.ca is None else f"the CA {settings.tls.ca}"
        cause = next((says.format(ca=ca) for has, says in _TLS_FAULTS if has in low), "")
        code = ""
    elif not cause and "failed to connect" in low and "socket closed" in low:
        cause = _NO_TLS
    if not cause:
        return None
    return UnavailableError(
        f"no sidecar can be reached at {settings.place}: {cause}; another address: address=, or "
        "PAWL_ADDR",
        code=code,
    )


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
