"""What tests of turns by models share: models of each vendor, and packs for them."""

from __future__ import annotations

import json
from typing import Any

from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from conftest import STEPS
from pawl_client import Client, RunResult
from pawl_client.models import AsyncModelHandler, ModelHandler
from scripted import Says, Scripted

KEY = "sk-very-secret"
VENDORS = ("chat", "responses", "messages")
LEAVE = ("leave_state", {"event": "Done"})


def model(vendor: str, url: str, name: str = "scripted") -> Model[Any]:
    if vendor == "messages":
        forms = ModelProfile(supports_json_schema_output=True)
        provider_ = AnthropicProvider(base_url=url, api_key=KEY)
        return AnthropicModel(name, provider=provider_, profile=forms)
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key=KEY)
    if vendor == "chat":
        return OpenAIChatModel(name, provider=provider)
    profile = OpenAIModelProfile(openai_supports_encrypted_reasoning_content=True)
    return OpenAIResponsesModel(name, provider=provider, profile=profile)


def blocking(vendor: str, url: str, **settings: Any) -> Any:
    return ModelHandler(model(vendor, url), **settings)


def awaiting(vendor: str, url: str, **settings: Any) -> Any:
    return AsyncModelHandler(model(vendor, url), **settings)


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
