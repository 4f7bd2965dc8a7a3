"""Makes graphs of LangGraph durable, and keeps their threads in the sidecar. Needs
`pip install 'pawl-client[langgraph]'`.

    from pawl_client import Client
    from pawl_client.langgraph import PawlDurability, PawlSaver, bounds

    with Client() as client:
        durability = PawlDurability(client, bounds=bounds(max_tool_calls=10))
        model = durability.durable(model)
        graph = durability.durable(builder.compile(checkpointer=PawlSaver(client, name="orders")))
        graph.invoke({"messages": "Order 17, please."}, request_id="order-17")

Each call of a durable model or tool is a recorded step of a run. The same program, executed again
with the same `request_id` after any crash, continues with what was recorded: no recorded answer is
paid again, and no recorded tool call is made again. `PawlSaver` keeps the checkpoints of threads
(docs/guides/langgraph.md).
"""

from __future__ import annotations

try:
    import langgraph.graph  # noqa: F401
except ImportError as error:
    _words = "graphs of LangGraph (Python 3.11): pip install 'pawl-client[langgraph]'"
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
    ThreadEndedError,
    ThreadInUseError,
    ToolChangedWarning,
)
from pawl_client._durable_langgraph import DurableGraph, PawlDurability
from pawl_client._durable_langgraph_run import NotDurableWarning
from pawl_client._durable_pack import Bounds, bounds
from pawl_client._langgraph_saver import PawlSaver

__all__ = [
    "Bounds",
    "DuplicateAgentError",
    "DuplicateToolError",
    "DurableGraph",
    "DurableRunError",
    "LibraryVersionError",
    "NestedAgentError",
    "NotDurableError",
    "NotDurableWarning",
    "NotSerializableError",
    "PawlDurability",
    "PawlSaver",
    "RunChangedError",
    "ThreadEndedError",
    "ThreadInUseError",
    "ToolChangedWarning",
    "bounds",
]
