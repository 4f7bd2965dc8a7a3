"""Tools that are typed functions, called with named arguments of the annotated types."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, Protocol

from pawl_client._values import Fault, Json

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ToolAdapter(Protocol):
    """Converts payloads to arguments and return values to JSON."""

    @property
    def parameters(self) -> Json:
        """The JSON Schema of its arguments."""

    def arguments(self, payload: Json) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of the call. Raises SchemaError (INVALID_ARGUMENTS)."""

    def result(self, value: Any) -> Json:
        """Returns the result as JSON. Raises SchemaError (RESULT_INVALID)."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A tool that is called with the payload as it was sent.

    `parameters` is the JSON Schema of the function's arguments; None: the function takes the
    payload.
    """

    function: Callable[[Any], Any]
    parameters: Json


def bind(tool: str, function: Callable[..., Any]) -> Bound:
    """Returns a function as a tool.

    The function gets the whole payload if its first parameter has no annotation or is called
    `payload`, and no other parameter is required. If that parameter is a dataclass or a pydantic
    model, the payload is converted to it. Any other function is called with named arguments that
    fit its annotations; one without parameters is called without arguments.

    Raises ValueError if the function cannot be called in one of these ways, or pydantic is not
    installed.
    """
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise ValueError(
            f"tool {tool}: an annotation cannot be resolved: {error}; "
            "import its names in the function's module"
        ) from error
    except (TypeError, ValueError):
        return Bound(function, None)  # A function in C, or another one without a signature.
    parameters = list(signature.parameters.values())
    whole = _whole(parameters)
    if whole is not None and not _is_model(whole.annotation):
        return Bound(function, None)
    if whole is None:
        _check(tool, parameters)
    adapter = _adapters(tool).adapter(tool, signature, whole)
    return Bound(_typed(function, adapter), adapter.parameters)


def local(tools: Mapping[str, Callable[..., Any]] | None) -> dict[str, Callable[[Any], Any]]:
    """Returns the tools that are called in this process, by name. Raises as `bind`."""
    return {name: bind(name, function).function for name, function in (tools or {}).items()}


def _whole(parameters: list[inspect.Parameter]) -> inspect.Parameter | None:
    """Returns the parameter that takes the whole payload; None: the function takes named
    arguments.
    """
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        return None
    first, *others = parameters
    if first.annotation is not inspect.Parameter.empty and first.name != "payload":
        return None
    needed = [p for p in others if p.default is p.empty and p.kind not in _VARIADIC]
    return None if needed else first


def _is_model(annotation: Any) -> bool:
    """Whether a payload is converted to this annotation: a dataclass or a pydantic model."""
    return isinstance(annotation, type) and (
        is_dataclass(annotation) or hasattr(annotation, "__pydantic_core_schema__")
    )


def _check(tool: str, parameters: list[inspect.Parameter]) -> None:
    for parameter in parameters:
        if parameter.kind not in _NAMED:
            raise ValueError(
                f"tool {tool}: parameter {parameter} cannot be given by name; "
                "use named parameters only, or take the payload with one parameter `payload`"
            )
        if parameter.annotation is inspect.Parameter.empty:
            raise ValueError(
                f"tool {tool}: parameter {parameter.name} has no annotation; annotate all "
                "parameters, or take the payload with one parameter `payload`"
            )


def _adapters(tool: str) -> Any:
    try:
        return importlib.import_module("pawl_client._typed_pydantic")
    except ImportError as error:
        raise ValueError(
            f"tool {tool}: a typed function needs pydantic 2: "
            "pip install 'pawl-client[typed]'; or take the payload with one parameter `payload`"
        ) from error


def _typed(function: Callable[..., Any], adapter: ToolAdapter) -> Callable[[Any], Any]:
    def called(payload: Any) -> Any:
        positional, named = adapter.arguments(payload)
        value = function(*positional, **named)
        return _awaited(adapter, value) if inspect.isawaitable(value) else _result(adapter, value)

    return called


async def _awaited(adapter: ToolAdapter, value: Awaitable[Any]) -> Any:
    return _result(adapter, await value)


def _result(adapter: ToolAdapter, value: Any) -> Any:
    return value if isinstance(value, Fault) else adapter.result(value)
