"""Checks that functions accept the payloads of a pack's tools."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pawl_client._errors import SchemaError
from pawl_client._typed_tools import bind
from pawl_client._values import Json

Difference: TypeAlias = "tuple[str, str]"
"""The place of a difference, as tools.NAME.parameters.PLACE, and its description."""


class HasSchemas(Protocol):
    """An object with the JSON Schemas of its tools: a Worker."""

    def schemas(self) -> dict[str, Json]:
        """The schemas by tool name."""


PackSource: TypeAlias = "Path | str | bytes | Mapping[str, Any]"
Tools: TypeAlias = "HasSchemas | Mapping[str, Callable[..., Any]]"


def schemas_of(tools: Tools) -> dict[str, Json]:
    """Returns the known JSON Schemas of tools. Raises as `bind`."""
    if not isinstance(tools, Mapping):
        return tools.schemas()
    bound = {name: bind(name, function).parameters for name, function in tools.items()}
    return {name: schema for name, schema in bound.items() if schema is not None}


def check_tools(pack: PackSource, schemas: Mapping[str, Json]) -> None:
    """Raises SchemaError (TOOL_MISMATCH) that names each difference."""
    declared = _object(_document(pack).get("tools"))
    found: list[Difference] = []
    for name in sorted(set(schemas) & set(declared)):
        have = _object(declared[name]).get("parameters") or {"type": "object"}
        found += differences(f"tools.{name}.parameters", have, schemas[name])
    if found:
        text = "\n".join(f"{place}: {what}" for place, what in found)
        raise SchemaError(
            f"functions do not accept the payloads of the pack's tools:\n{text}",
            reason="TOOL_MISMATCH",
            metadata={"field": found[0][0]},
            violations=tuple(found),
        )


def differences(place: str, have: Any, want: Any) -> Iterator[Difference]:
    """Yields each difference between `have`, a pack's parameters, and `want`, a function's.

    A difference is a payload that the pack permits and the function does not accept. Names, types
    and constants are compared, but not ranges, patterns or formats.

    >>> pack = {"type": "object", "properties": {"a": {"type": "string"}, "c": {}}}
    >>> takes = {
    ...     "type": "object",
    ...     "properties": {"a": {"type": "integer"}, "b": {"type": "number"}},
    ...     "required": ["b"],
    ...     "additionalProperties": False,
    ... }
    >>> for difference in differences("add", pack, takes):
    ...     print(*difference)
    add.a the pack admits string, the function takes integer
    add.b the function requires it, the pack does not declare it
    add.c the pack declares it, the function does not take it
    """
    yield from _compare(place, _Schema(have, have), _Schema(want, want), 0)


class _Schema:
    """A schema in its document. References and unions are resolved on both sides."""

    def __init__(self, root: Any, body: Any) -> None:
        self._root = root
        self.forms = list(_forms(root, body, frozenset()))
        """Its alternatives, without references and unions; empty if they are not known."""

    def types(self) -> set[str] | None:
        """JSON types that it permits. None means any type, or unknown types."""
        found: set[str] = set()
        for form in self.forms:
            types = _types(form)
            if types is None:
                return None
            found |= types
        return found or None

    def words(self) -> list[Any] | None:
        """The only values that it permits. None means that it permits others."""
        found: list[Any] = []
        for form in self.forms:
            if _types(form) == {"null"}:
                continue
            words = [form["const"]] if "const" in form else form.get("enum")
            if words is None:
                return None
            found += words
        return found or None

    def only(self, kind: str) -> dict[str, Any] | None:
        """Its single alternative of this type. None means that it has none, or several."""
        of_kind = [form for form in self.forms if kind in (_types(form) or ())]
        return of_kind[0] if len(of_kind) == 1 else None

    def part(self, body: Any) -> _Schema:
        """Returns a schema nested in this one."""
        return _Schema(self._root, body)


_DEEPEST = 16
"""Levels that are compared, since types may be recursive."""


def _compare(place: str, have: _Schema, want: _Schema, level: int) -> Iterator[Difference]:
    admits, accepted = have.types(), want.types()
    if accepted is not None and not _covered(admits, accepted):
        shown = " or ".join(sorted(admits)) if admits else "anything"
        yield place, f"the pack admits {shown}, the function takes {' or '.join(sorted(accepted))}"
        return
    words, known = have.words(), want.words()
    if known is not None and (words is None or any(word not in known for word in words)):
        shown = "other values too" if words is None else _listed(words)
        yield place, f"the pack admits {shown}, the function takes {_listed(known)}"
    if level < _DEEPEST:
        yield from _compare_objects(place, have, want, level + 1)
        yield from _compare_items(place, have, want, level + 1)


def _compare_objects(place: str, have: _Schema, want: _Schema, level: int) -> Iterator[Difference]:
    accepted = want.only("object")
    if accepted is None:
        return
    admits = have.only("object") or {}
    declared, known = admits.get("properties", {}), accepted.get("properties", {})
    needed = set(accepted.get("required", ()))
    for name in sorted({*declared, *known}):
        here = f"{place}.{name}"
        if name not in known:
            if accepted.get("additionalProperties") is False:
                yield here, "the pack declares it, the function does not take it"
            continue
        if name not in declared:
            if name in needed:
                yield here, "the function requires it, the pack does not declare it"
            continue
        if name in needed and name not in admits.get("required", ()):
            yield here, "the function requires it, in the pack it is optional"
        yield from _compare(here, have.part(declared[name]), want.part(known[name]), level)


def _compare_items(place: str, have: _Schema, want: _Schema, level: int) -> Iterator[Difference]:
    admits, accepted = have.only("array"), want.only("array")
    if admits and accepted and isinstance(accepted.get("items"), dict):
        inner = have.part(admits.get("items", {}))
        yield from _compare(f"{place}[]", inner, want.part(accepted["items"]), level)


def _covered(admits: set[str] | None, accepted: set[str]) -> bool:
    every = {"string", "number", "boolean", "object", "array", "null"}
    wide = accepted | ({"integer"} if "number" in accepted else set())
    return (admits if admits is not None else every) <= wide


def _listed(words: list[Any]) -> str:
    return ", ".join(json.dumps(word, ensure_ascii=False) for word in words)


def _forms(root: Any, body: Any, seen: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yields the alternatives of a schema, through unions and references in its own document."""
    if not isinstance(body, dict):
        yield {}  # True permits any value; False is not expected in a pack.
        return
    ref = body.get("$ref")
    if isinstance(ref, str):
        if ref.startswith("#") and ref not in seen:
            yield from _forms(root, _at(root, ref), seen | {ref})
        else:
            yield {}
        return
    for union in ("anyOf", "oneOf"):
        if union in body:
            for option in body[union]:
                yield from _forms(root, option, seen)
            return
    yield body


def _at(root: Any, ref: str) -> Any:
    """Returns the target of a reference; {} if there is none."""
    found = root
    for word in ref.removeprefix("#").split("/")[1:]:
        key = word.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, dict) else None
    return found if found is not None else {}


def _types(form: dict[str, Any]) -> set[str] | None:
    """JSON types that one alternative permits. None means any type, or unknown types."""
    kind = form.get("type")
    if kind is not None:
        return {kind} if isinstance(kind, str) else set(kind)
    values = [form["const"]] if "const" in form else form.get("enum")
    if values is not None:
        return {_type_of(value) for value in values}
    return {"object"} if "properties" in form else None


def _type_of(value: Any) -> str:
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "array" if isinstance(value, list) else "object"


def _document(pack: PackSource) -> Mapping[str, Any]:
    """Returns a pack as a mapping."""
    if isinstance(pack, Mapping):
        return pack
    text = pack.read_bytes() if isinstance(pack, Path) else pack
    try:
        return _object(json.loads(text))
    except ValueError:
        return _object(_from_yaml(text))


def _from_yaml(text: str | bytes) -> Any:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise ValueError(
            "pack: the text is not JSON; to read YAML, pip install 'pawl-client[typed]'"
        ) from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"pack: neither JSON nor YAML: {error}") from error


def _object(value: Any) -> Mapping[str, Any]:
    """Returns a mapping unchanged, and {} for any other value: the sidecar reports faults of a
    pack.
    """
    return value if isinstance(value, Mapping) else {}
