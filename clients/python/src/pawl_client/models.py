"""Executes turns with a model of any provider. Needs `pip install 'pawl-client[models]'`.

    from pawl_client import Client
    from pawl_client.models import ModelHandler

    handler = ModelHandler("openai:gpt-5-mini")
    with Client() as client:
        client.run("my-pack", handler, tools={"run_tests": run_tests}, request_id="order-17")

The name is `provider:model`; pydantic-ai reads the endpoint and the key from the environment. For
an endpoint of your own, pass a `pydantic_ai.models.Model`:

    OpenAIChatModel("llama", provider=OpenAIProvider(base_url="http://gpu:8000/v1", api_key="-"))

Each answer of the model is stored as a record. After a loss of the program, the worker, the sidecar
or the connection, the run continues from the recorded answers, and no request or tool call is
repeated (docs/guides/models.md).

A handler serves `Client.run` and workers alike. The model gets the rendered system prompt, the
conversation and the prompt's tools, and each tool call is a durable step. The model leaves the
state by calling one function: its enum holds the state's allowed events, and its arguments hold the
artifacts. No other answer moves the run.
"""

from __future__ import annotations

from pawl_client._async_model_handler import AsyncModelHandler
from pawl_client._model_handler import ModelHandler

__all__ = ["AsyncModelHandler", "ModelHandler"]
