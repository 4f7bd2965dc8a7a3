"""The key of a call, where those that a tool calls look for it."""

from __future__ import annotations

from pawl_client import ToolCall


def test_the_key_stands_where_http_and_mcp_look_for_it() -> None:
    call = ToolCall(
        run_id="R",
        step=7,
        tool="t",
        attempt=2,
        key="k",
        idempotency_key="R/7",
        turn_seq=1,
        deadline=None,
    )
    assert call.headers() == {"Idempotency-Key": "R/7"}
    assert call.meta() == {"dev.pawl/idempotency-key": "R/7"}
