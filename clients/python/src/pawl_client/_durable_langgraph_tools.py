"""Tools of LangChain whose calls are steps of a durable run."""

from __future__ import annotations

import base64
import builtins
import contextlib
import hashlib
import inspect
import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import PrivateAttr, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from pawl_client import _schema
from pawl_client._durable_errors import NotSerializableError
from pawl_client._durable_langgraph_run import Blocking, GraphRun, check_loop, current_run, inside
from pawl_client._durable_pack import AgentTool
from pawl_client._durable_run import Outcome
from pawl_client._errors import SchemaError, StepFailedError
from pawl_client._json_text import dump_json
from pawl_client._values import Json

_RAW = "langgraph"
"""Key of a recorded result that is no plain value, for example a Command."""
_SERDE = JsonPlusSerializer()


class DurableTool(BaseTool):
    """A tool whose calls are steps of the durable run that the graph executes."""

    inner: BaseTool
    """The program's own tool."""
    _declared: AgentTool = PrivateAttr()

    @classmethod
    def of(cls, tool: BaseTool) -> DurableTool:
        """Returns the durable form of a tool."""
        made = cls(
            inner=tool,
            name=tool.name,
            description=tool.description,
            args_schema=tool.args_schema,
            return_direct=tool.return_direct,
            response_format=tool.response_format,
            tags=tool.tags,
            metadata=tool.metadata,
            extras=tool.extras,
        )
        function = convert_to_openai_tool(tool)["function"]
        made._declared = AgentTool(
            name=tool.name,
            description=function.get("description", ""),
            parameters=function.get("parameters") or {"type": "object", "properties": {}},
            code=_code_of(made.func or made.coroutine or type(tool)),
        )
        return made

    @property
    def declared(self) -> AgentTool:
        """The tool as its model sees it."""
        return self._declared

    # LangGraph looks at the function for the arguments that it injects.

    @property
    def func(self) -> Any:
        """The function of the program's own tool. None means that it has none."""
        return getattr(self.inner, "func", None)

    @property
    def coroutine(self) -> Any:
        """The coroutine function of the program's own tool. None means that it has none."""
        return getattr(self.inner, "coroutine", None)

    @property
    def tool_call_schema(self) -> Any:
        """The schema that the model sees."""
        return self.inner.tool_call_schema

    def get_input_schema(self, config: Any = None) -> Any:
        """Returns the schema of all arguments."""
        return self.inner.get_input_schema(config)

    def _run(self, *arguments: Any, **named: Any) -> Any:
        return self.inner._run(*arguments, **named)

    # Calls

    def run(self, tool_input: Any, *arguments: Any, **named: Any) -> Any:
        """Returns the recorded result of a call, or makes the call as a step."""
        found = current_run(named.get("config"))
        call = None if found is None else _Call(self, tool_input, named.get("tool_call_id"))
        if found is None or call is None or call.payload is None:
            return self.inner.run(tool_input, *arguments, **named)
        run, config = found
        name, payload, call_id = self.name, call.payload, call.id
        ordered = run.ordered(config)

        def execute(permitted: Json) -> Json:
            token = inside.set((run.request_id, name))
            try:
                return call.recorded(self.inner.run(call.arguments(permitted), *arguments, **named))
            finally:
                inside.reset(token)

        step = Blocking(
            run, lambda body: run.tool(name, payload, call_id, config, body, ordered=ordered)
        )
        for wanted in step:
            wanted.do(execute)
        return call.result(run, *step.result())

    async def arun(self, tool_input: Any, *arguments: Any, **named: Any) -> Any:
        """Returns the recorded result of a call, or makes the call as a step."""
        found = current_run(named.get("config"))
        call = None if found is None else _Call(self, tool_input, named.get("tool_call_id"))
        if found is None or call is None or call.payload is None:
            return await self.inner.arun(tool_input, *arguments, **named)
        run, config = found
        check_loop(run)
        ordered = run.ordered(config)

        async def execute(permitted: Json) -> Json:
            result = await self.inner.arun(call.arguments(permitted), *arguments, **named)
            return call.recorded(result)

        done = await run.tool(self.name, call.payload, call.id, config, execute, ordered=ordered)
        return call.result(run, *done)


class _Call:
    """One call of a durable tool."""

    def __init__(self, tool: DurableTool, given: Any, call_id: str | None) -> None:
        self._tool, self._given, self._call_id = tool, given, call_id
        self.id = call_id or ""
        """The id of the model's call; empty: the node's code makes the call."""
        self._injected: dict[str, Any] = {}
        self.payload = self._payload()
        """The arguments that are recorded. None means that the tool itself refuses the call's
        arguments.
        """

    def _payload(self) -> dict[str, Json] | None:
        tool, given = self._tool, self._given
        parameters = tool.declared.parameters
        if isinstance(given, str):
            names = list(parameters.get("properties") or {})
            given = {names[0] if names else "input": given}
        visible = tool.inner._filter_injected_args(given)
        self._injected = {name: value for name, value in given.items() if name not in visible}
        written = _plain(tool.name, visible)
        try:
            _schema.check(written, parameters, tool.name)
        except SchemaError:
            try:
                parsed = tool.inner._parse_input(dict(given), self._call_id)
            except (ValidationError, ValueError):
                return None
            arguments = parsed if isinstance(parsed, dict) else visible
            written = _plain(tool.name, tool.inner._filter_injected_args(arguments))
            _schema.check(written, parameters, tool.name)
        return written

    def arguments(self, permitted: Json) -> Any:
        """Returns the arguments of the call, with those that an approval edited."""
        if permitted == self.payload or not isinstance(permitted, dict):
            return self._given
        return {**permitted, **self._injected}

    def recorded(self, value: Any) -> Json:
        """Returns the recorded form of a result. Raises NotSerializableError."""
        if isinstance(value, ToolMessage) and self._call_id is not None:
            plain = ToolMessage(
                content=value.content, tool_call_id=self._call_id, name=self._tool.name
            )
            if isinstance(value.content, str) and value == plain:
                return value.content
        elif self._call_id is None:
            text = None
            with contextlib.suppress(TypeError, ValueError):
                text = dump_json(value, "result")
            marked = isinstance(value, dict) and _RAW in value
            if text is not None and not marked and json.loads(text) == value:
                return json.loads(text)
        try:
            kind, data = _SERDE.dumps_typed(value)
        except (TypeError, ValueError) as error:
            raise NotSerializableError(
                f"tool {self._tool.name!r}: its result, a {type(value).__name__}, has no stored "
                f"form: {error}; return JSON types, dataclasses, pydantic models or messages",
                reason="NOT_SERIALIZABLE",
            ) from error
        text = str(getattr(value, "content", value))[:1000]
        return {_RAW: [kind, base64.b64encode(data).decode()], "text": text}

    def result(self, run: GraphRun, outcome: Outcome, cause: BaseException | None) -> Any:
        """Returns the result of a call as the tool returns it. Raises for a call that failed."""
        name = self._tool.name
        if not outcome.ok:
            code, text = outcome.failure
            if outcome.for_the_model and self._call_id is not None:
                return ToolMessage(
                    content=f"{code}: {text}",
                    tool_call_id=self._call_id,
                    name=name,
                    status="error",
                )
            raise run.failing(_error_of(name, code, text)) from cause
        recorded = outcome.result
        if isinstance(recorded, dict) and isinstance(raw := recorded.get(_RAW), list):
            return _SERDE.loads_typed((str(raw[0]), base64.b64decode(str(raw[1]))))
        if self._call_id is not None:
            content: Any = recorded if isinstance(recorded, str) else dump_json(recorded, name)
            return ToolMessage(content=content, tool_call_id=self._call_id, name=name)
        return recorded


def _code_of(made_of: Any) -> str:
    """Returns a digest of the source of a function or class; empty: it has none."""
    try:
        return hashlib.sha256(inspect.getsource(made_of).encode()).hexdigest()[:16]
    except (OSError, TypeError):
        return ""


def _plain(tool: str, arguments: Mapping[str, Any]) -> dict[str, Json]:
    """Returns arguments as JSON. Raises NotSerializableError."""
    try:
        found: dict[str, Json] = to_jsonable_python(dict(arguments), by_alias=True)
        dump_json(found, "arguments")
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise NotSerializableError(
            f"tool {tool!r}: its arguments have no JSON form: {error}; nothing was called. Pass "
            "JSON types, and mark what the graph provides with InjectedToolArg",
            reason="NOT_SERIALIZABLE",
        ) from error
    return found


def _error_of(tool: str, code: str, text: str) -> Exception:
    """Returns the error of a failed call: the same in each execution. An error of Python itself,
    and ToolException, keep their class; the errors of other classes become a StepFailedError.
    """
    found = ToolException if code == "ToolException" else getattr(builtins, code, None)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            return found(text)
        except TypeError:
            pass
    return StepFailedError(f"tool {tool}: {code}: {text}", reason=code)
