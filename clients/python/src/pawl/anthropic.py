"""Turns executed by Anthropic's messages; needs `pip install 'pawl-sidecar[anthropic]'`.

    from anthropic import Anthropic
    from pawl import Client
    from pawl.anthropic import MessagesHandler

    handler = MessagesHandler(Anthropic(), model="claude-opus-4-5")
    with Client() as client:
        client.run("my-pack", handler, tools={"run_tests": run_tests}, request_id="order-17")

It is as `pawl.openai`: every answer of the model is a record, and so is every tool call.
"""

from __future__ import annotations

from pawl._async_messages import AsyncMessagesHandler
from pawl._messages import MessagesHandler

__all__ = ["AsyncMessagesHandler", "MessagesHandler"]
