"""Turns executed by any OpenAI-compatible endpoint; needs `pip install 'pawl-sidecar[openai]'`.

    from openai import OpenAI
    from pawl import Client
    from pawl.openai import ChatHandler

    handler = ChatHandler(OpenAI(), model="gpt-5-mini")
    with Client() as client:
        client.run("my-pack", handler, tools={"run_tests": run_tests})

A handler is for `Client.run` and for workers alike. The model gets the rendered system
prompt, the conversation and the prompt's tools, each of which is a durable step. It
leaves the state by calling one function whose enum is the state's allowed events and
whose arguments carry the artifacts; nothing else can move the run.
"""

from __future__ import annotations

from pawl._async_chat import AsyncChatHandler
from pawl._chat import ChatHandler

__all__ = ["AsyncChatHandler", "ChatHandler"]
