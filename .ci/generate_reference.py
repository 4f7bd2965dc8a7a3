"""Writes the pages of the API that are not committed, as Markdown below the directory given.

python/ has the public names of pawl_client, read by griffe without an import. proto/ has one page
for each service and one for the messages that several of them use, read from the descriptor set
given, which has the comments. typescript/ is what typedoc wrote; its longest lines are shortened.

    generate_reference.py DIRECTORY DESCRIPTORS
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import griffe
from google.api import annotations_pb2
from google.protobuf import descriptor_pb2

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "clients/python/src"

# The page of each module of the client; the first that matches.
PYTHON_PAGES = [
    ("client", "Client and runs", r"_(async_)?(client|run|drive|turn|blobs|consumers)$|_settings|_outcomes"),
    ("worker", "Workers and tools", r"_worker|_tool_call|_turn_view|_turn_requests|_types"),
    ("errors", "Errors", r"_errors|_reasons"),
    ("events", "Events", r"_events"),
    ("records", "Records and history", r"_records|_history"),
    ("packs", "Packs", r"_packs"),
    ("control", "Control", r"_control"),
    ("model-calls", "Model calls", r"_models|_model_calls"),
    ("values", "Values", r""),
]
PYTHON_MODULES = [
    ("pawl_client.models", "models", "Models"),
    ("pawl_client.pack", "pack", "Packs as programs"),
    ("pawl_client.testing", "testing", "Tests"),
]


def docstring(text: str) -> str:
    """Returns a docstring as Markdown: its doctests are blocks of code."""
    out: list[str] = []
    inside = False
    for line in text.split("\n"):
        starts = line.startswith(">>>")
        if starts and not inside:
            out += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            out += ["```", ""]
            inside = False
        out.append(line)
    if inside:
        out.append("```")
    return "\n".join(out).strip().replace("\n- ", "\n- ")


def signature(function: griffe.Function, name: str) -> str:
    """Returns the line, or lines, that declare a function."""
    parts: list[str] = []
    star = False
    for p in function.parameters:
        if p.name in ("self", "cls"):
            continue
        text = p.name
        if p.kind is griffe.ParameterKind.var_positional:
            text, star = f"*{p.name}", True
        elif p.kind is griffe.ParameterKind.var_keyword:
            text = f"**{p.name}"
        elif p.kind is griffe.ParameterKind.keyword_only and not star:
            parts.append("*")
            star = True
        if p.annotation is not None:
            text += f": {p.annotation}"
        if p.default is not None and not text.startswith("*"):
            text += f" = {p.default}" if p.annotation is not None else f"={p.default}"
        parts.append(text)
    begin = "async def " if "async" in function.labels else "def "
    end = f" -> {function.returns}" if function.returns is not None else ""
    line = f"{begin}{name}({', '.join(parts)}){end}"
    if len(line) <= 100:
        return line
    return f"{begin}{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def code(text: str) -> list[str]:
    return ["```python", text, "```", ""]


def final(thing: Any) -> Any:
    return thing.final_target if thing.is_alias else thing


def members(cls: griffe.Class) -> list[Any]:
    """Returns the public members of a class, those of private bases too, in their order."""
    found: dict[str, Any] = {}
    for base in [*reversed(cls.mro()), cls]:
        if base is cls or base.name.startswith("_") or base.module.name.startswith("_"):
            for name, member in base.members.items():
                if not name.startswith("_") and not member.is_alias:
                    found[name] = member
    return list(found.values())


def python_object(name: str, thing: Any) -> list[str]:
    """Returns the section of one public name."""
    out = [f"## {name}", ""]
    text = docstring(thing.docstring.value) if thing.docstring else ""
    if thing.is_class:
        bases = ", ".join(str(base) for base in thing.bases)
        init = thing.members.get("__init__")
        fields = [m for m in members(thing) if m.is_attribute]
        out += code(f"class {name}({bases})" if bases else f"class {name}")
        if init is not None and init.is_function and len(init.parameters) > 1:
            out += code(signature(init, name).removeprefix("def ").split(" -> ")[0])
        out += [text, ""]
        rows = []
        for field in fields:
            about = " ".join(docstring(field.docstring.value).split()) if field.docstring else ""
            kind = f"`{field.annotation}`" if field.annotation is not None else ""
            if not kind and re.match(r"['\"\d]", str(field.value)):
                kind = f"`{field.value}`"
            rows.append(f"| `{field.name}` | {kind} | {about} |".replace(" | None", " \\| None"))
        if rows:
            rows = [re.sub(r"`[^`]*`", lambda m: re.sub(r"(?<!\\)\|", r"\\|", m[0]), row) for row in rows]
            out += ["| name | type or value | meaning |", "|---|---|---|", *rows, ""]
        for method in members(thing):
            if method.is_function:
                out += [f"### {name}.{method.name}", "", *code(signature(method, method.name))]
                if method.docstring:
                    out += [docstring(method.docstring.value), ""]
    elif thing.is_function:
        out += code(signature(thing, name)) + [text, ""]
    else:
        value = str(thing.value) if thing.value is not None else ""
        kind = f": {thing.annotation}" if thing.annotation is not None else ""
        out += code(f"{name}{kind} = {value}") + [text, ""]
    return out


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
    path.write_text(text, encoding="utf-8")


def python(at: Path) -> None:
    """Writes the pages of pawl_client."""
    loader = griffe.GriffeLoader(search_paths=[SOURCE])
    package = loader.load("pawl_client", submodules=True)
    loader.resolve_aliases(implicit=True)
    pages: dict[str, list[str]] = {name: [] for name, _, _ in PYTHON_PAGES}
    index = ["# Python", "", "The public names of the package `pawl_client`, from its source.", ""]
    named: dict[str, list[str]] = {name: [] for name, _, _ in PYTHON_PAGES}
    for name in package.exports or []:
        if name not in package.members:
            continue
        thing = final(package.members[str(name)])
        if thing.is_module:
            continue
        module = thing.module.name
        page = next(page for page, _, pattern in PYTHON_PAGES if re.search(pattern, module))
        pages[page] += python_object(str(name), thing)
        named[page].append(f"[{name}]({page}.md#{str(name).lower()})")
    for page, title, _ in PYTHON_PAGES:
        write(at / f"{page}.md", [f"# {title}", "", "From `pawl_client`.", "", *pages[page]])
        index += [f"- [{title}]({page}.md): {', '.join(named[page])}"]
    for path, page, title in PYTHON_MODULES:
        module = package.modules[path.rsplit(".", 1)[1]]
        lines = [f"# {title}", "", f"From `{path}`.", ""]
        if module.docstring:
            lines += [docstring(module.docstring.value), ""]
        for name in module.exports or [n for n in module.members if not n.startswith("_")]:
            if name in module.members:
                lines += python_object(str(name), final(module.members[str(name)]))
        write(at / f"{page}.md", lines)
        index += [f"- [{title}]({page}.md): the module `{path}`"]
    write(at / "README.md", index)


def comments(file: descriptor_pb2.FileDescriptorProto) -> dict[tuple[int, ...], str]:
    """Returns the comments of a file by the paths of what they are about."""
    found = {}
    for location in file.source_code_info.location:
        text = location.leading_comments or location.trailing_comments
        lines = [line.removeprefix(" ") for line in text.strip("\n").split("\n")]
        found[tuple(location.path)] = "\n".join(lines).strip()
    return found


def proto(at: Path, descriptors: Path) -> None:
    """Writes a page for each service, and one for what several use."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
    own = [file for file in files.file if file.package == "pawl.v1"]
    messages: dict[str, tuple[Any, str, dict[int, str], list[tuple[str, Any]]]] = {}
    enums: dict[str, tuple[Any, str, dict[int, str]]] = {}

    def visit(prefix: str, about: dict[tuple[int, ...], str], path: tuple[int, ...], message: Any) -> None:
        name = f"{prefix}.{message.name}"
        fields = {i: about.get((*path, 2, i), "") for i in range(len(message.field))}
        messages[name] = (message, about.get(path, ""), fields, [])
        for i, inner in enumerate(message.nested_type):
            visit(name, about, (*path, 3, i), inner)
        for i, enum in enumerate(message.enum_type):
            add_enum(name, about, (*path, 4, i), enum)

    def add_enum(prefix: str, about: dict[tuple[int, ...], str], path: tuple[int, ...], enum: Any) -> None:
        values = {i: about.get((*path, 2, i), "") for i in range(len(enum.value))}
        enums[f"{prefix}.{enum.name}"] = (enum, about.get(path, ""), values)

    services = []
    for file in own:
        about = comments(file)
        for i, message in enumerate(file.message_type):
            visit(".pawl.v1", about, (4, i), message)
        for i, enum in enumerate(file.enum_type):
            add_enum(".pawl.v1", about, (5, i), enum)
        for i, service in enumerate(file.service):
            services.append((file, service, about, i))

    def used(name: str, seen: list[str]) -> list[str]:
        """Adds what a message is made of, depth first."""
        if name in seen or (name not in messages and name not in enums):
            return seen
        seen.append(name)
        if name in messages:
            for field in messages[name][0].field:
                if field.type_name:
                    used(field.type_name, seen)
        return seen

    needs: dict[str, list[str]] = {}
    for _, service, _, _ in services:
        seen: list[str] = []
        for method in service.method:
            used(method.input_type, seen)
            used(method.output_type, seen)
        needs[service.name] = seen
    homes: dict[str, str] = {}
    for name in [*messages, *enums]:
        users = [service for service, seen in needs.items() if name in seen]
        homes[name] = page_of(users[0]) if len(users) == 1 else "messages"

    def link(name: str, here: str) -> str:
        short = name.removeprefix(".pawl.v1.")
        if name not in homes:
            return f"`{name.removeprefix('.')}`"
        where = "" if homes[name] == here else f"{homes[name]}.md"
        return f"[`{short}`]({where}#{anchor(short)})"

    def kind(field: Any, here: str) -> str:
        if field.type_name:
            entry = messages.get(field.type_name)
            if entry and entry[0].options.map_entry:
                key, value = entry[0].field
                return f"map of {kind(key, here)} to {kind(value, here)}"
            text = link(field.type_name, here)
        else:
            text = f"`{descriptor_pb2.FieldDescriptorProto.Type.Name(field.type).removeprefix('TYPE_').lower()}`"
        return f"repeated {text}" if field.label == field.LABEL_REPEATED else text

    def types(here: str) -> list[str]:
        out: list[str] = []
        names = sorted(name for name, home in homes.items() if home == here)
        for name in names:
            short = name.removeprefix(".pawl.v1.")
            if name in enums:
                enum, text, values = enums[name]
                out += [f"### {short}", "", "Enum. " + text, "", "| value | number | meaning |", "|---|---|---|"]
                out += [f"| `{v.name}` | {v.number} | {cell(values[i])} |" for i, v in enumerate(enum.value)]
                out += [""]
                continue
            message, text, fields, _ = messages[name]
            if message.options.map_entry:
                continue
            out += [f"### {short}", "", text, ""]
            if message.field:
                out += ["| field | number | type | meaning |", "|---|---|---|---|"]
                for i, f in enumerate(message.field):
                    one = ""
                    if f.HasField("oneof_index") and not f.proto3_optional:
                        one = f"One of `{message.oneof_decl[f.oneof_index].name}`. "
                    out += [f"| `{f.name}` | {f.number} | {kind(f, here)} | {one}{cell(fields[i])} |"]
                out += [""]
        return out

    index = ["# gRPC services", "", "Each service of `pawl.v1` with its messages, from the comments of",
             "[`proto/pawl/v1`](../../../proto/pawl/v1). How the calls play together: [API](../api.md).", ""]
    for file, service, about, i in services:
        here = page_of(service.name)
        out = [f"# {service.name}", "", f"`pawl.v1.{service.name}`, from `{file.name}`.", "", about.get((6, i), ""), "", "## Calls", ""]
        for j, method in enumerate(service.method):
            stream = ("stream " if method.client_streaming else "", "stream " if method.server_streaming else "")
            out += [f"### {method.name}", "",
                    f"{stream[0]}{link(method.input_type, here)} → {stream[1]}{link(method.output_type, here)}", ""]
            rule = method.options.Extensions[annotations_pb2.http]
            verb = rule.WhichOneof("pattern")
            if verb:
                out += [f"JSON: `{verb.upper()} {getattr(rule, verb)}`", ""]
            out += [about.get((6, i, 2, j), ""), ""]
        out += ["## Messages", "", *types(here)]
        write(at / f"{here}.md", out)
        first = about.get((6, i), "").split(". ")[0].split("\n\n")[0].replace("\n", " ").rstrip(".")
        index += [f"- [{service.name}]({here}.md): {first}"]
    write(at / "messages.md", ["# Messages of several services", "", *types("messages")])
    index += ["- [Messages of several services](messages.md)"]
    write(at / "README.md", index)


BRACES = re.compile(r"\\\{[^{}]*?\\\}")


def typescript(at: Path) -> None:
    """Makes what typedoc wrote into pages of the site.

    Types that it spells out become `object` in long lines. The second heading of a name has the
    anchor that mkdocs gives it. Its page index is client, as README.md is the index.
    """
    if (at / "index.md").exists():
        (at / "index.md").replace(at / "client.md")
    pages: dict[Path, str] = {}
    for page in sorted(at.glob("*.md")):
        lines = page.read_text(encoding="utf-8").split("\n")
        for i, line in enumerate(lines):
            while len(line) > 600 and (shorter := BRACES.sub("`object`", line)) != line:
                line = shorter
            lines[i] = re.sub(r"(`object` \\?\\\| )+(?=`object`)", "", line)
        text = "\n".join(lines)
        text = text.replace("](index.md", "](client.md")
        text = re.sub(r"^# index$", "# Client", text, flags=re.MULTILINE)
        text = re.sub(r"\n#+ Generated\n\n.*\n|\\*\\*Generated\\*\\* from [^|\n]*", "", text)
        text = text.replace("[index](client.md)", "[client](client.md)")
        pages[page] = text
    known = {page.name: anchors(text) for page, text in pages.items()}
    for page, text in pages.items():

        def mend(link: re.Match[str], here: str = page.name) -> str:
            name, word, number = link.groups()
            at = known.get(name or here, set())
            if f"{word}-{number}" in at:
                return link[0]
            return f"]({name}#{word}_{number})" if f"{word}_{number}" in at else f"]({name}#{word})"

        page.write_text(re.sub(r"\]\(([\w.]*)#([\w-]+?)-(\d+)\)", mend, text), encoding="utf-8")


def anchors(text: str) -> set[str]:
    """Returns the anchors of a page as mkdocs makes them, and those that it has itself."""
    found = set(re.findall(r'<a id="([^"]+)"', text))
    slugs: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        slug = anchor(title.replace("\\", "")).replace(" ", "-")
        number = 0
        while (name := f"{slug}_{number}" if number else slug) in slugs:
            number += 1
        slugs.add(name)
    return found | slugs


def page_of(service: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", service).lower()


def anchor(name: str) -> str:
    return re.sub(r"[^\w\- ]", "", name.lower())


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    python(Path(sys.argv[1]) / "python")
    typescript(Path(sys.argv[1]) / "typescript")
    proto(Path(sys.argv[1]) / "proto", Path(sys.argv[2]))
