"""An agent of the OpenAI Agents SDK under SIGKILL of the app, the sidecar and both: no recorded
model answer is asked for twice, no recorded tool call is made twice, and the output is the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dying_world import POINTS
from killing_agents import KILLS, cases, escalate, kill

PROGRAM = "dying_openai_agent.py"


@cases((*POINTS, "in the stream"), [("in the stream", "both"), ("after the effect", "app")])
def test_killed(point: str, victims: str, tmp_path: Path) -> None:
    kill(PROGRAM, "dying", point, victims, tmp_path)


@pytest.mark.skipif(not KILLS, reason="make kill-agents runs it")
@pytest.mark.parametrize("point", ["in the effect", "after the effect"])
def test_a_tool_that_may_not_be_repeated(point: str, tmp_path: Path) -> None:
    escalate(PROGRAM, point, tmp_path)
