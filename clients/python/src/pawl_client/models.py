"""Turns executed by models of any provider; needs `pip install 'pawl-client[models]'`.

    from pawl_client import Client
    from pawl_client.models import ModelHandler

    handler = ModelHandler("openai:gpt-5-mini")
    with Client() as client:
        client.run("my-pack", handler, tools={"run_tests": run_tests}, request_id="order-17")

The name is `provider:model`; endpoint and key come from the environment, as pydantic-ai reads
them. In its place any `pydantic_ai.models.Model` does, for an endpoint of one's own:

    OpenAIChatModel("llama", provider=OpenAIProvider(base_url="http://gpu:8000/v1", api_key="-"))

Every answer of the model is a record: whatever is lost, the program, the worker, the sidecar
or the connection, the run goes on with what was answered, and nothing is asked or done twice
(docs/guides/models.md).

A handler is for `Client.run` and for workers alike. The model gets the rendered system
prompt, the conversation and the prompt's tools, each of which is a durable step. It
leaves the state by calling one function whose enum is the state's allowed events and
whose arguments carry the artifacts; nothing else can move the run.
"""

from __future__ import annotations

from pawl_client._async_model_handler import AsyncModelHandler
from pawl_client._model_handler import ModelHandler

__all__ = ["AsyncModelHandler", "ModelHandler"]
