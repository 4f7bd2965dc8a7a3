"""For a message that gRPC itself refuses, the client raises an error with its own text."""

from __future__ import annotations

import pytest

from pawl_client import Client, LimitError
from pawl_client.testing import Sidecar


@pytest.mark.parametrize(
    ("size", "says", "limit"),
    [
        (2 << 20, "this client sends at most 1048576 (max_message_bytes)", 1 << 20),
        (9 << 20, "more than the sidecar at ", 8 << 20),
    ],
)
def test_a_request_that_is_too_large(sidecar: Sidecar, size: int, says: str, limit: int) -> None:
    most = 1 << 20 if limit == 1 << 20 else 64 << 20
    with (
        Client(address=sidecar.address, max_message_bytes=most) as client,
        pytest.raises(LimitError) as caught,
    ):
        client.validate_pack(b"x" * size)
    error = caught.value
    assert error.message.startswith("request: ")
    assert says in error.message
    assert "larger than max" not in error.message
    assert (error.code, error.reason) == ("RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE")
    assert error.limit == limit
