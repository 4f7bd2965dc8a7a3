"""Warnings about tools that the tool policy refuses. Without them only the model learns of a
refusal.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pawl_client._runs import StepOutcome
from pawl_client._turn_requests import StepCall
from pawl_client._values import Denial

log = logging.getLogger("pawl_client")

_POLICY = ("TOOL_NOT_ALLOWED", "TOOL_BLOCKED")
_MAX = 10_000
_warned: set[tuple[str, str]] = set()


def warn_denied(pack: str, calls: Sequence[StepCall], outcomes: Sequence[StepOutcome]) -> None:
    """Warns of each tool that the operator or the pack denies, once for each pack and tool."""
    for call, outcome in zip(calls, outcomes, strict=False):
        denial = outcome.denial
        if denial is not None and denial.code in _POLICY and _first(pack, call.tool):
            log.warning(
                "pack %s: tool %s is denied: %s: %s%s",
                pack,
                call.tool,
                denial.code,
                denial.message,
                _remedy(denial, call.tool),
            )


def _remedy(denial: Denial, tool: str) -> str:
    """How to permit the tool, if the sidecar's message does not say it."""
    if denial.code != "TOOL_NOT_ALLOWED" or "--allow-tool" in denial.message:
        return ""
    return f" (serve the sidecar of that run with --allow-tool {tool})"


def _first(pack: str, tool: str) -> bool:
    # Two threads at once may both be the first: a second line does no harm.
    if (pack, tool) in _warned:
        return False
    if len(_warned) >= _MAX:
        _warned.clear()
    _warned.add((pack, tool))
    return True
