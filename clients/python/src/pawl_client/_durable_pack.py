"""The pack of an agent that a library runs: one state, its tools and its bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pawl_client._json_text import dump_json
from pawl_client._values import Json
from pawl_client.pack import Pack


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits and approvals of an agent's runs; `bounds` makes it."""

    limits: Mapping[str, Json] = field(default_factory=dict)
    tools: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)


def bounds(
    *,
    max_tool_calls: int = 0,
    max_tokens: int = 0,
    max_cost_usd: float = 0.0,
    max_wall_time_sec: int = 0,
    prices: Mapping[str, Mapping[str, float]] | None = None,
    approve: Mapping[str, str] | None = None,
    repeat: Sequence[str] = (),
    tools: Mapping[str, Mapping[str, Json]] | None = None,
) -> Bounds:
    """Returns limits and approvals for the runs of an agent. 0 or None: not limited.

    `max_tool_calls`, `max_tokens`, `max_cost_usd` and `max_wall_time_sec` limit one run. `prices`
    are those of models, in US dollars for a million tokens: `max_cost_usd` needs the price of the
    model. `approve` maps a tool to "always" or to a CEL expression over its arguments; such a call
    waits for a person. `repeat` names the tools that may be called again after an unknown outcome,
    because they only read, or give `current_call().idempotency_key` to the service that they
    change; with any other tool the run then ends ESCALATED. `tools` sets further options of a tool,
    the keys of `x_pawl.tools.NAME`.

    >>> bounds(max_tool_calls=5, approve={"refund": "payload.amount > 100.0"}).tools
    {'refund': {'approve': 'payload.amount > 100.0'}}

    Raises ValueError for a limit below 0.
    """
    limits: dict[str, Json] = {
        "max_tool_calls": max_tool_calls,
        "max_tokens": max_tokens,
        "max_cost_usd": max_cost_usd,
        "max_wall_time_sec": max_wall_time_sec,
    }
    for name, limit in limits.items():
        if limit < 0:
            raise ValueError(f"{name}: must not be negative, not {limit}")
    options: dict[str, dict[str, Json]] = {}
    for tool, rule in (approve or {}).items():
        options.setdefault(tool, {})["approve"] = rule
    for tool in repeat:
        options.setdefault(tool, {}).update({"on_unknown": "retry", "attempts": _REPEATS})
    for tool, given in (tools or {}).items():
        options.setdefault(tool, {}).update(given)
    limits = {name: limit for name, limit in limits.items() if limit}
    if prices:
        limits["prices"] = {model: dict(price) for model, price in prices.items()}
    return Bounds(limits=limits, tools=options)


_REPEATS = 3
"""Attempts of a tool that may be called again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """A tool of an agent, as its model sees it. `held`: each call waits for an approval. `code` is
    a digest of the tool's source; empty: it is not known.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    held: bool = False
    options: Mapping[str, Json] = field(default_factory=dict)
    code: str = ""


_CODE = "code_of_tools"
"""Key of a pack's metadata that has the digests of the tools' sources."""


def pack_id(name: str) -> str:
    """Returns the id of an agent's pack.

    >>> pack_id("Order Desk_2")
    'order-desk-2'

    Raises ValueError for a name without letters.
    """
    found = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    found = re.sub(r"^[0-9-]+", "", found)[:63].rstrip("-")
    if not found:
        raise ValueError(f"the agent's name {name!r} needs a letter")
    return found


def pack_of(
    name: str, tools: Iterable[AgentTool], bounds: Bounds, *, library: str, version: str = "1.0.0"
) -> Pack:
    """Returns the pack of an agent. Raises ValueError for bounds of a tool that it does not have,
    and for a name that packs do not permit.
    """
    declared = sorted(tools, key=lambda tool: tool.name)
    if unknown := set(bounds.tools) - {tool.name for tool in declared}:
        names = ", ".join(tool.name for tool in declared) or "none"
        raise ValueError(f"bounds: agent {name} has no tool {', '.join(sorted(unknown))}: {names}")
    pack = Pack(
        pack_id(name), version=version, name=name, description=f"The agent {name}, run by {library}"
    )
    for tool in declared:
        options: dict[str, Any] = {"on_unknown": "escalate", **tool.options}
        if tool.held:
            options["approve"] = "always"
        options.update(bounds.tools.get(tool.name, {}))
        pack.tool(
            name=tool.name,
            description=tool.description or f"Tool {tool.name}.",
            parameters=tool.parameters,
            **options,
        )(_declared(tool.name))
    prompt = f"The program's agent {_plain(name)} has the instructions; {library} runs it."
    pack.state("run", prompt, tools=[tool.name for tool in declared], terminal=True)
    pack.limits(**bounds.limits)
    if code := {tool.name: tool.code for tool in declared if tool.code}:
        pack._notes[_CODE] = dict(code)
    return pack


def _declared(name: str) -> Any:
    def tool(payload: Json) -> Json:
        raise NotImplementedError(f"the agent executes {name}")

    return tool


def _plain(name: str) -> str:
    return re.sub(r"[{}]", "", name)


def changed_tools(document: bytes, tools: Iterable[AgentTool]) -> list[str]:
    """Returns the names of tools whose parameters differ from a recorded pack, or that it has and
    the agent has not.
    """
    recorded = json.loads(document).get("tools", {})
    have = {tool.name: tool.parameters for tool in tools}
    return sorted(
        name
        for name, tool in recorded.items()
        if name not in have or tool["parameters"] != json.loads(dump_json(have[name], "parameters"))
    )


def changed_code(document: bytes, tools: Iterable[AgentTool]) -> list[str]:
    """Returns the names of tools whose source differs from that of a recorded pack."""
    recorded = json.loads(document).get("metadata", {}).get(_CODE, {})
    return sorted(
        tool.name for tool in tools if tool.code and recorded.get(tool.name, tool.code) != tool.code
    )
