"""What tests of turns by models share: handlers of each vendor's package, and packs for them."""

from __future__ import annotations

import json
from typing import Any

from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

from conftest import STEPS
from pawl import Client, RunResult
from pawl.anthropic import AsyncMessagesHandler, MessagesHandler
from pawl.openai import (
    AsyncChatHandler,
    AsyncResponsesHandler,
    ChatHandler,
    ResponsesHandler,
)
from scripted import Says, Scripted

KEY = "sk-very-secret"
VENDORS = ("chat", "responses", "messages")
LEAVE = ("leave_state", {"event": "Done"})


def blocking(vendor: str, url: str, **settings: Any) -> Any:
    if vendor == "messages":
        client = Anthropic(base_url=url, api_key=KEY, max_retries=0)
        return MessagesHandler(client, model="scripted", **settings)
    model = OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    handler = ChatHandler if vendor == "chat" else ResponsesHandler
    return handler(model, model="scripted", **settings)


def awaiting(vendor: str, url: str, **settings: Any) -> Any:
    if vendor == "messages":
        client = AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0)
        return AsyncMessagesHandler(client, model="scripted", **settings)
    model = AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    handler = AsyncChatHandler if vendor == "chat" else AsyncResponsesHandler
    return handler(model, model="scripted", **settings)


def registered(
    client: Client, pack_id: str, prompt: Any = None, bounds: Any = None, orchestration: str = ""
) -> str:
    """The pack of the tests with other words in its prompt, other bounds, or moved by others."""
    pack = json.loads(STEPS.read_text())
    pack["id"] = pack_id
    pack["prompts"]["calc"].update(prompt or {})
    pack["workflow"]["engine"]["x_pawl"].update(bounds or {})
    if orchestration:
        pack["workflow"]["states"]["calc"]["orchestration"] = orchestration
    client.register_pack(json.dumps(pack), filename="x.json")
    return pack_id


def adds(*numbers: int) -> list[tuple[str, Any]]:
    return [("add", {"a": n, "b": 1}) for n in numbers]


def played(client: Client, vendor: str, pack: str, *script: Says, **how: Any) -> Any:
    tools, settings = how.pop("tools", {}), how.pop("settings", {})
    with Scripted(*script) as endpoint:
        handler = blocking(vendor, endpoint.url, **settings)
        how = {"variables": {"n": 1}, "input": "Add."} | how
        result: RunResult = client.run(pack, handler, tools=tools, **how)
    return result, endpoint
