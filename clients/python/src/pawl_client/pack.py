"""Packs written in Python: states, events, limits, and tools from typed functions.

    from pawl_client import Client
    from pawl_client.pack import Pack

    pack = Pack("shop")

    @pack.tool(attempts=1, on_unknown="escalate")
    def charge(order: str) -> str:
        '''Charges an order.'''
        return f"charged {order}"

    sell = pack.state("sell", "Charge what the customer orders, once.", tools=[charge])
    sold = pack.state("sold", "Tell the customer what was charged.", terminal=True)
    sell.on("Sold", sold)
    pack.limits(max_tool_calls=3, max_cost_usd=0.5)

    pack.write("shop.pack.yaml")          # the pack as a file, checked by `pawl validate`

    with Client() as client:              # or without a file
        client.register_pack(pack.json())
        client.run("shop", model="openai:gpt-5-mini", tools=pack.tools, input="Order 17, please.")

The result is a PromptPack like one that was written by hand: docs/guides/packs.md describes its
fields. Typed functions need `pip install 'pawl-client[typed]'`.
"""

from __future__ import annotations

import copy
import inspect
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from pawl_client._binary import sidecar_path
from pawl_client._json_text import dump_json
from pawl_client._typed_tools import bind
from pawl_client._values import Json

__all__ = ["Pack", "State", "append"]

F = TypeVar("F", bound=Callable[..., Any])

_ID = re.compile(r"[a-z][a-z0-9-]*")
_STATE = re.compile(r"[a-z][a-z0-9_]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MEDIA = re.compile(r"[\w.+-]+/[\w.+-]+")
_BUDGET = frozenset(["max_total_visits", "max_tool_calls", "max_wall_time_sec"])


class _Append(str):
    """A media type with the mode append."""


def append(media_type: str = "application/json") -> str:
    """Returns the type of an artifact that collects values instead of replacing the last one.

    >>> append("text/plain")
    'text/plain'
    """
    return _Append(media_type)


class State:
    """One state of a pack. `Pack.state` makes it."""

    def __init__(self, pack: Pack, name: str, fields: dict[str, Any]) -> None:
        self._pack = pack
        self.name = name
        """Its name."""
        self._fields = fields
        self._events: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"State({self.name!r})"

    def on(self, event: str, to: State | str) -> State:
        """Declares an event that leads to another state, by the state or its name.

        Returns this state, so that calls can be chained. Raises ValueError for an event that is
        declared already, a name that is not valid, and a terminal state.
        """
        _check_name("event", event)
        if self._fields.get("terminal"):
            raise ValueError(f"state {self.name}: a terminal state has no events; not {event!r}")
        if event in self._events:
            raise ValueError(f"state {self.name}: the event {event!r} is declared already")
        self._events[event] = to.name if isinstance(to, State) else to
        return self

    def _document(self) -> dict[str, Any]:
        for event, to in self._events.items():
            self._pack._known(to, f"state {self.name}: the event {event!r}")
        target = self._fields.get("on_max_visits")
        if target is not None:
            self._pack._known(target, f"state {self.name}: on_max_visits")
        return {**self._fields, **({"on_event": self._events} if self._events else {})}


class Pack:
    """A PromptPack that is built in code. The first state is the entry.

    `id` is lower-case letters, digits and "-", and begins with a letter. `version` is a semantic
    version (default 1.0.0). `name` and `description` are for people (default: the id, none).

    >>> pack = Pack("writer")
    >>> done = pack.state("done", "Thank the reader.", terminal=True)
    >>> pack.document()["workflow"]["entry"]
    'done'
    """

    def __init__(
        self, id: str, *, version: str = "1.0.0", name: str = "", description: str = ""
    ) -> None:
        if not _ID.fullmatch(id):
            raise ValueError(
                f"pack {id!r}: an id is lower-case letters, digits and '-', and begins with a "
                "letter"
            )
        self.id = id
        """The name under which runs start."""
        self.version = version
        """The version; `id@version` means one content for ever."""
        self.tools: dict[str, Callable[..., Any]] = {}
        """The functions of the tools, as `Client.run` and `Worker.tool` take them."""
        self._about = {"name": name or id, **({"description": description} if description else {})}
        self._tools: dict[str, dict[str, Any]] = {}
        self._tool_options: dict[str, dict[str, Any]] = {}
        self._states: dict[str, State] = {}
        self._prompts: dict[str, dict[str, Any]] = {}
        self._limits: dict[str, Any] = {}
        self._notes: dict[str, Json] = {}
        """Notes about the pack: its `metadata`."""

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str = ...,
        description: str = ...,
        parameters: Mapping[str, Any] | None = ...,
        **options: Any,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: Any = None,
        /,
        *,
        name: str = "",
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Declares a function as a tool; used as a decorator.

        The name is that of the function, the description its docstring, the JSON Schema that of
        its annotated parameters, unless they are given. `options` are those of
        `x_pawl.tools.NAME`: timeout_sec, attempts, retry, on_error, on_unknown, approve,
        approval, cost, max_calls, and so on. Raises ValueError for a name that is taken or not
        valid, a tool without a description, and a function without types and without
        `parameters`.
        """

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            tool = name or getattr(function, "__name__", "")
            _check_name("tool", tool)
            if tool in self._tools:
                raise ValueError(f"tool {tool}: the name is declared already")
            about = description or inspect.getdoc(function) or ""
            if not about:
                raise ValueError(
                    f"tool {tool}: a description is missing; give the function a docstring, or "
                    "set description"
                )
            schema = parameters if parameters is not None else bind(tool, function).parameters
            if schema is None:
                raise ValueError(
                    f"tool {tool}: the types of its arguments are missing; annotate the "
                    "function's parameters, or set parameters to a JSON Schema"
                )
            self._tools[tool] = {"name": tool, "description": about, "parameters": schema}
            if options:
                self._tool_options[tool] = dict(options)
            self.tools[tool] = function
            return function

        return declare if function is None else declare(function)

    def state(
        self,
        name: str,
        prompt: str,
        *,
        tools: Sequence[Callable[..., Any] | str] = (),
        artifacts: Mapping[str, type | str] | None = None,
        variables: Sequence[str] = (),
        max_visits: int = 0,
        on_max_visits: State | str | None = None,
        orchestration: str = "",
        terminal: bool = False,
    ) -> State:
        """Adds a state with a prompt of its own.

        `prompt` is the template of the system prompt: `{{NAME}}` is a variable, which `variables`
        names, and `{{artifacts.NAME}}` an artifact. `tools` are functions that were declared with
        `tool`, or names of tools. `artifacts` are the values that the state writes or reads: `str`
        is text, every other class JSON, a text the media type, and `append(…)` collects values.
        `max_visits` (default 0: no limit) and `on_max_visits` bound a loop. `orchestration` is
        internal (default), external or hybrid.

        Raises ValueError for a name that is taken or not valid, an unknown tool, and limits that
        do not fit each other.
        """
        self._check_state(name, max_visits, on_max_visits, orchestration)
        document: dict[str, Any] = {"id": name, "name": name, "version": self.version}
        document["system_template"] = prompt
        if variables:
            document["variables"] = [
                {"name": variable, "type": "string", "required": True} for variable in variables
            ]
        if tools:
            document["tools"] = [self._tool_name(name, tool) for tool in tools]
        fields: dict[str, Any] = {
            "prompt_task": name,
            "max_visits": max_visits,
            "on_max_visits": getattr(on_max_visits, "name", on_max_visits),
            "artifacts": {
                key: _artifact(name, key, kind) for key, kind in (artifacts or {}).items()
            },
            "orchestration": orchestration,
            "terminal": terminal,
        }
        self._prompts[name] = document
        self._states[name] = State(
            self, name, {key: value for key, value in fields.items() if value}
        )
        return self._states[name]

    def limits(self, **limits: Any) -> None:
        """Sets limits of the whole run.

        max_total_visits, max_tool_calls and max_wall_time_sec are those of the format's budget;
        every other one is a key of `x_pawl`, for example max_cost_usd, max_tokens, on_budget.
        A later call adds to earlier ones.
        """
        self._limits.update(limits)

    def document(self) -> dict[str, Json]:
        """Returns the pack as a JSON object. Raises ValueError for a pack without states, and an
        event or limit that leads to an unknown state."""
        if not self._states:
            raise ValueError(f"pack {self.id}: it has no state; add one with state()")
        engine: dict[str, Any] = {}
        budget = {key: value for key, value in self._limits.items() if key in _BUDGET}
        extra = {key: value for key, value in self._limits.items() if key not in _BUDGET}
        if self._tool_options:
            extra["tools"] = {**extra.get("tools", {}), **self._tool_options}
        if budget:
            engine["budget"] = budget
        if extra:
            engine["x_pawl"] = extra
        document = {
            "id": self.id,
            **self._about,
            "version": self.version,
            "template_engine": {"version": "v1", "syntax": "{{variable}}"},
            "prompts": self._prompts,
            **({"tools": self._tools} if self._tools else {}),
            **({"metadata": self._notes} if self._notes else {}),
            "workflow": {
                "version": 2,
                "entry": next(iter(self._states)),
                **({"engine": engine} if engine else {}),
                "states": {name: state._document() for name, state in self._states.items()},
            },
        }
        return copy.deepcopy(document)

    def json(self) -> str:
        """Returns the pack as JSON text, as `Client.register_pack` takes it.

        Raises as `document`, and InvalidJsonError for a limit or an option that has no JSON form.
        """
        return dump_json(self.document(), f"pack {self.id}", indent=2) + "\n"

    def check(self, *, binary: str = "") -> list[str]:
        """Checks the pack as `pawl validate` does and returns the warnings.

        `binary` is the program (default: `sidecar_path()`). Raises ValueError with all findings
        if there is an error, SidecarError if there is no program.
        """
        with tempfile.TemporaryDirectory(prefix="pawl-pack-") as directory:
            file = Path(directory, f"{self.id}.pack.json")
            file.write_text(self.json(), encoding="utf-8")
            done = subprocess.run(  # noqa: S603
                [binary or sidecar_path(), "validate", "--output", "json", str(file)],
                capture_output=True,
                text=True,
                check=False,
            )
        try:
            found = json.loads(done.stdout)
        except ValueError:
            raise ValueError(f"pack {self.id}: {done.stderr.strip() or done.stdout}") from None
        findings = [
            f"{d['code']} at {d['pointer'] or '/'}: {d['message']}"
            for one in found["files"]
            for d in one["diagnostics"]
        ]
        if done.returncode != 0:
            raise ValueError(f"pack {self.id}:\n" + "\n".join(findings))
        return findings

    def write(self, path: str | Path, *, binary: str = "") -> None:
        """Checks the pack and writes it to a file, JSON, which is YAML too. Raises as `check`."""
        self.check(binary=binary)
        Path(path).write_text(self.json(), encoding="utf-8")

    def _check_state(
        self, name: str, max_visits: int, target: State | str | None, orchestration: str
    ) -> None:
        if not _STATE.fullmatch(name):
            raise ValueError(
                f"state {name!r}: a name is lower-case letters, digits and '_', and begins with a "
                "letter"
            )
        if name in self._states:
            raise ValueError(f"state {name}: the name is declared already")
        if max_visits < 0 or (target is not None and max_visits == 0):
            raise ValueError(
                f"state {name}: max_visits must be positive where it or on_max_visits is set, "
                f"not {max_visits}"
            )
        if orchestration not in ("", "internal", "external", "hybrid"):
            raise ValueError(
                f"state {name}: orchestration must be internal, external or hybrid, "
                f"not {orchestration!r}"
            )

    def _known(self, state: str, what: str) -> None:
        if state not in self._states:
            raise ValueError(
                f"{what} leads to {state!r}, which is no state: {', '.join(self._states)}"
            )

    def _tool_name(self, state: str, tool: Callable[..., Any] | str) -> str:
        for name, function in self.tools.items():
            if function is tool or name == tool:
                return name
        raise ValueError(
            f"state {state}: {tool!r} is no tool of the pack; declare it with @pack.tool"
        )


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{what} {name!r}: a name is letters, digits and '_', and does not begin with a digit"
        )


def _artifact(state: str, name: str, kind: type | str) -> dict[str, str]:
    if isinstance(kind, str):
        if not _MEDIA.fullmatch(kind):
            raise ValueError(
                f"state {state}: the artifact {name} has the media type {str(kind)!r}; give one "
                "like text/plain, or a class"
            )
        return {"type": str(kind), **({"mode": "append"} if isinstance(kind, _Append) else {})}
    return {"type": "text/plain" if kind is str else "application/json"}
