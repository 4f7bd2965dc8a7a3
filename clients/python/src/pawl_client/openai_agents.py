"""Runs agents of the OpenAI Agents SDK durably. Needs `pip install 'pawl-client[openai-agents]'`.

    from agents import Agent
    from pawl_client import Client
    from pawl_client.openai_agents import PawlRunner, bounds

    agent = Agent(name="Assistant", instructions="You are a helpful assistant")
    with Client() as client:
        runner = PawlRunner(client, bounds=bounds(max_tool_calls=10))
        result = runner.run_sync(agent, "Write a haiku.", request_id="haiku-1")
        print(result.final_output)

Each model call, function tool, hand-off and guardrail is a recorded step of a run. The same
program, executed again with the same `request_id` after any crash, continues with what was
recorded: no recorded answer is paid again, and no recorded tool call is made again
(docs/guides/openai-agents.md).
"""

from __future__ import annotations

try:
    import agents  # noqa: F401
except ImportError as error:
    _words = (
        "agents of the OpenAI Agents SDK (Python 3.11): pip install 'pawl-client[openai-agents]'"
    )
    raise ImportError(_words) from error

from pawl_client._durable_errors import (
    DuplicateAgentError,
    DuplicateToolError,
    DurableRunError,
    LibraryVersionError,
    NestedAgentError,
    NotDurableError,
    NotSerializableError,
    RunChangedError,
)
from pawl_client._durable_openai_agents import PawlRunner
from pawl_client._durable_pack import Bounds, bounds

__all__ = [
    "Bounds",
    "DuplicateAgentError",
    "DuplicateToolError",
    "DurableRunError",
    "LibraryVersionError",
    "NestedAgentError",
    "NotDurableError",
    "NotSerializableError",
    "PawlRunner",
    "RunChangedError",
    "bounds",
]
