"""Turns executed by any OpenAI-compatible endpoint; needs `pip install 'pawl-sidecar[openai]'`.

    from openai import OpenAI
    from pawl import Client
    from pawl.openai import ChatHandler

    handler = ChatHandler(OpenAI(), model="gpt-5-mini")
    with Client() as client:
        client.run("my-pack", handler, tools={"run_tests": run_tests}, request_id="order-17")

Every answer of the model is a record: whatever is lost, the program, the worker, the sidecar
or the connection, the run goes on with what was answered, and nothing is asked or done twice
(docs/models.md). `ResponsesHandler` speaks OpenAI's responses instead of chat completions.

A handler is for `Client.run` and for workers alike. The model gets the rendered system
prompt, the conversation and the prompt's tools, each of which is a durable step. It
leaves the state by calling one function whose enum is the state's allowed events and
whose arguments carry the artifacts; nothing else can move the run.
"""

from __future__ import annotations

from pawl._async_chat import AsyncChatHandler
from pawl._async_responses import AsyncResponsesHandler
from pawl._chat import ChatHandler
from pawl._responses import ResponsesHandler

__all__ = ["AsyncChatHandler", "AsyncResponsesHandler", "ChatHandler", "ResponsesHandler"]
