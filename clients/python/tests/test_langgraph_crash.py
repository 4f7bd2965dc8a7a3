"""A graph of LangGraph under SIGKILL of the app, the sidecar and both, with and without a
checkpointer: no recorded model answer is asked for twice, no recorded tool call is made twice, and
the output is the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dying_world import POINTS
from killing_agents import KILLS, cases, escalate, kill

PROGRAM = "dying_langgraph.py"
FEW = [("in the last stream", "both"), ("after the effect", "app")]


@cases((*POINTS, "in the last stream"), FEW)
@pytest.mark.parametrize("keeps", ["no saver", "saver"])
def test_killed(point: str, victims: str, keeps: str, tmp_path: Path) -> None:
    if not KILLS and (keeps == "saver") != (point == FEW[1][0]):
        pytest.skip("make kill-agents runs it")
    repeat = "repeat saver" if keeps == "saver" else "repeat"
    kill(PROGRAM, "dying", point, victims, tmp_path, repeat=repeat)


@pytest.mark.skipif(not KILLS, reason="make kill-agents runs it")
@pytest.mark.parametrize("point", ["in the effect", "after the effect"])
def test_a_tool_that_may_not_be_repeated(point: str, tmp_path: Path) -> None:
    escalate(PROGRAM, point, tmp_path)
