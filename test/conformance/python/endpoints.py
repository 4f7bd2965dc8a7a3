"""The verb `model`: a run whose turns a model executes, through the library of this language.

One request is `{run_id, form, base_url, model, serve}`: the run, which was started for its
caller; `form` is the wire form of the endpoint (chat, messages or responses), `base_url` its
address as clients of that form take it, `model` its name there, `serve` the tools to serve. Each
tool appends `{run, tool, step, attempt, payload}` to the ledger as it is called, then: `broken`
raises, `photo` returns bytes, all others return `{"ok": true}`. The library makes no retries of
its own. The answer is `{status}`, or what the client raised.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from canon import canon
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

import pawl_client
from pawl_client.models import AsyncModelHandler, ModelHandler

_PNG = b"\x89PNG\r\n\x1a\n"


def _model(form: str, base_url: str, model: str) -> Model[Any]:
    if form == "messages":
        return AnthropicModel(model, provider=AnthropicProvider(base_url=base_url, api_key="none"))
    provider = OpenAIProvider(base_url=base_url, api_key="none")
    if form == "responses":
        # What the library knows of OpenAI's models that reason, by their names.
        profile = OpenAIModelProfile(openai_supports_encrypted_reasoning_content=True)
        return OpenAIResponsesModel(model, provider=provider, profile=profile)
    return OpenAIChatModel(model, provider=provider)


def _tool(name: str, ledger: str) -> Callable[[Any], Any]:
    def call(payload: Any) -> Any:
        made = pawl_client.current_call()
        line = {
            "run": made.run_id,
            "tool": name,
            "step": made.step,
            "attempt": made.attempt,
            "payload": payload,
        }
        file = os.open(ledger, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)
        if name == "broken":
            raise RuntimeError("the tool is broken")
        return _PNG if name == "photo" else {"ok": True}

    return call


def execute(run: pawl_client.Run, args: Mapping[str, Any], ledger: str) -> Any:
    """Executes a run until it ends."""
    kind: Any = ModelHandler if isinstance(run, pawl_client.Run) else AsyncModelHandler
    handler = kind(_model(args["form"], args["base_url"], args["model"]))
    tools = {name: _tool(name, ledger) for name in args["serve"]}
    done = run.drive(handler, tools=tools)
    return {"status": canon(done.run)["status"]}
