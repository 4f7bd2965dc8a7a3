"""What to do about an error: the table of docs/reference/errors.md, "What to do with an error".

A test compares the two. The TypeScript client has the same table.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pawl_client._errors import AuthenticationError, PawlError

Advice: TypeAlias = Literal["repeat", "reconnect", "give up"]
"""repeat: make the same call with the same id a little later. reconnect: make it over a new stream.
give up: the same call would get the same answer.
"""

Reasons: TypeAlias = "tuple[str, ...] | Literal['any', 'none', 'waits']"
"""any: with every reason and without one. none: without a reason, as gRPC and proxies report a
broken stream. waits: with every reason, if the server says how long to wait.
"""

ADVICE: tuple[tuple[str, Reasons, Advice], ...] = (
    ("ABORTED", ("WORKER_REPLACED", "CONSUMER_REPLACED"), "give up"),
    ("ABORTED", ("PACK_CONTENDED", "UPLOAD_CONTENDED", "SUBSCRIPTION_CONTENDED"), "repeat"),
    ("PERMISSION_DENIED", ("TURN_TOKEN_STALE",), "give up"),
    ("UNAUTHENTICATED", ("TOKEN_EXPIRED",), "repeat"),
    ("UNIMPLEMENTED", ("OPERATION_UNKNOWN",), "repeat"),
    ("UNAVAILABLE", "any", "reconnect"),
    ("DEADLINE_EXCEEDED", "any", "repeat"),
    ("CANCELLED", "any", "reconnect"),
    ("UNKNOWN", "none", "reconnect"),
    ("INTERNAL", "none", "reconnect"),
    ("RESOURCE_EXHAUSTED", "waits", "repeat"),
    ("any", "any", "give up"),
)
"""Rows of a code, its reasons and the advice; the first matching row applies."""


def advice_of(error: PawlError) -> Advice:
    """Returns what to do about an error of a server or of gRPC.

    Errors of this package, for example the caller's own cancellation, have no code: "give up".

    >>> advice_of(PawlError("away", code="UNAVAILABLE"))
    'reconnect'
    >>> advice_of(PawlError("no", code="INTERNAL", reason="INTERNAL"))
    'give up'
    """
    for code, reasons, advice in ADVICE:
        if code in ("any", error.code) and _fits(error, reasons):
            return advice
    return "give up"


def _fits(error: PawlError, reasons: Reasons) -> bool:
    if reasons == "any":
        return True
    if reasons == "none":
        return not error.reason
    if reasons == "waits":
        return error.retry_after is not None
    return error.reason in reasons


def repeatable(error: PawlError) -> bool:
    """Whether the same request, with the same id and the same token, may succeed a little later.

    A refused token is not repeatable here: `_caller` and `_worker_connection` ask the token
    function, where there is one, for a new token.
    """
    return advice_of(error) != "give up" and not isinstance(error, AuthenticationError)
