"""What providers tell of their limits, as executors read it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pawl_client._models import ModelAnswer, ProviderLimits
from pawl_client._provider_errors import limits_of
from pawl_client._runs import TurnRef
from pawl_client._turn_requests import answer_model_request


def told(**headers: str) -> Any:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def test_openai() -> None:
    limits = limits_of(
        told(
            x_ratelimit_remaining_requests="59",
            x_ratelimit_reset_requests="1s",
            x_ratelimit_remaining_tokens="149984",
            x_ratelimit_reset_tokens="6m0.5s",
        )
    )
    assert limits == ProviderLimits(
        requests=59,
        requests_reset=timedelta(seconds=1),
        tokens=149984,
        tokens_reset=timedelta(seconds=360.5),
    )


def test_anthropic() -> None:
    at = datetime.now(timezone.utc) + timedelta(seconds=30)
    limits = limits_of(
        told(
            anthropic_ratelimit_tokens_remaining="1000",
            anthropic_ratelimit_tokens_reset=at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
    )
    assert limits is not None
    assert limits.requests is None
    assert limits.tokens == 1000
    assert limits.tokens_reset is not None
    assert timedelta(seconds=25) < limits.tokens_reset <= timedelta(seconds=30)


@pytest.mark.parametrize(
    ("left", "reset"), [("many", "1s"), ("-1", "1s"), ("5", "soon"), ("5", "")]
)
def test_what_cannot_be_read_tells_nothing(left: str, reset: str) -> None:
    told_so = told(x_ratelimit_remaining_tokens=left, x_ratelimit_reset_tokens=reset)
    assert limits_of(told_so) is None
    assert limits_of({}) is None


def test_they_go_with_the_answer() -> None:
    turn = TurnRef(run_id="r", turn_seq=1, attempt=1, token="t", state="s", visit=1)
    limits = ProviderLimits(tokens=0, tokens_reset=timedelta(seconds=2))
    request = answer_model_request("", turn, 1, 1, ModelAnswer(), None, limits)
    assert request.provider_limits.HasField("tokens")
    assert not request.provider_limits.HasField("requests")
    assert request.provider_limits.tokens_reset.seconds == 2
