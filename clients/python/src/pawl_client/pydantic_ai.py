"""Makes an existing agent of Pydantic AI durable. Needs `pip install 'pawl-client[pydantic-ai]'`.

    from pydantic_ai import Agent
    from pawl_client import Client
    from pawl_client.pydantic_ai import PawlDurability, bounds

    with Client() as client:
        durability = PawlDurability(client, bounds=bounds(max_tool_calls=10))
        agent = Agent("openai:gpt-5-mini", name="orders", capabilities=[durability])
        with durability.run(request_id="order-17"):
            print(agent.run_sync("Order 17, please.").output)

Each model request and each tool call of the agent is a recorded step of a run. The same program,
executed again with the same `request_id` after any crash, continues with what was recorded: no
recorded answer is paid again, and no recorded tool call is made again (docs/guides/pydantic-ai.md).
"""

from __future__ import annotations

try:
    import pydantic_ai  # noqa: F401
except ImportError as error:
    _words = "agents of Pydantic AI (Python 3.11): pip install 'pawl-client[pydantic-ai]'"
    raise ImportError(_words) from error

from pawl_client._durable_errors import (
    DuplicateAgentError,
    DurableRunError,
    LibraryVersionError,
    NestedAgentError,
    NotSerializableError,
    RunChangedError,
)
from pawl_client._durable_pack import Bounds, bounds
from pawl_client._durable_pydantic_ai import PawlDurability

__all__ = [
    "Bounds",
    "DuplicateAgentError",
    "DurableRunError",
    "LibraryVersionError",
    "NestedAgentError",
    "NotSerializableError",
    "PawlDurability",
    "RunChangedError",
    "bounds",
]
