"""What handlers of turns know about the endpoint of a chat model."""

from __future__ import annotations

import openai as sdk

from pawl._errors import FailTurnError, SchemaError, StepDeniedError, StepFailedError
from pawl._exchange import Exchange
from pawl._turn_view import TurnView

TOLD = (SchemaError, StepDeniedError, StepFailedError)
"""Errors of a step that the model is told."""


class ChatSettings:
    """Which model, and how often it is asked."""

    def __init__(self, *, model: str, max_rounds: int) -> None:
        if not model:
            raise ValueError("model: a name, not empty")
        if max_rounds < 1:
            raise ValueError(f"max_rounds: 1 or more, not {max_rounds}")
        self._model, self._max_rounds = model, max_rounds

    def _exchange(self, turn: TurnView) -> Exchange:
        policy = (turn.settings or {}).get("tool_policy") or {}
        rounds = min(self._max_rounds, policy.get("max_rounds") or self._max_rounds)
        # The last round is for leaving the state.
        return Exchange(turn, model=self._model, max_rounds=rounds + 1)


def broken(error: Exception) -> FailTurnError:
    """What breaks a stream of the endpoint, its HTTP library included, fails the turn."""
    if isinstance(error, sdk.APIStatusError):
        return failure(error)
    return FailTurnError("STREAM_TRUNCATED", f"{type(error).__name__}: {error}")


def failure(error: sdk.OpenAIError) -> FailTurnError:
    """What an error of the endpoint says of the turn."""
    if isinstance(error, sdk.RateLimitError):
        return FailTurnError("MODEL_RATE_LIMITED", str(error))
    if isinstance(error, sdk.APIStatusError):
        code = error.status_code
        return FailTurnError(f"MODEL_{code}", str(error), retryable=code >= 500)
    if isinstance(error, sdk.APIConnectionError):
        return FailTurnError("MODEL_UNREACHABLE", str(error))
    return FailTurnError("MODEL_ERROR", str(error))
