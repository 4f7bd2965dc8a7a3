"""Hooks of mkdocs for `make site`.

- A link that leaves docs/ leads to the file in the repository on GitHub.
- A directory of docs/ that is linked leads to its README.md.
- dev/adr/README.md lists the decisions; build/reference has the pages of the API.
- Each page is written a second time as Markdown, beside the HTML; llms.txt is in the root.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "build/reference"
FENCE = re.compile(r"^\s*```")
LINK = re.compile(r"(\]\()([^)\s]+)((?: \"[^\"]*\")?\))")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|#|/")

pages: dict[str, str] = {}


def decisions() -> str:
    """Returns the page that lists the decision records."""
    rows = ["# Decisions", "", "Each decision with alternatives has a page.", ""]
    rows += ["| number | decision | status |", "|---|---|---|"]
    for path in sorted((ROOT / "docs/dev/adr").glob("0*.md")):
        text = path.read_text(encoding="utf-8")
        title = text.split("\n", 1)[0].removeprefix("# ")
        number, _, name = title.partition(": ")
        status = re.search(r"^Status: (.*)$", text, re.MULTILINE)
        link = f"[{name or title}]({path.name})"
        rows.append(f"| {number} | {link} | {status[1] if status else ''} |")
    return "\n".join(rows) + "\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the generated pages into the navigation, for each `generated: DIRECTORY`."""

    def fill(entry: object) -> object:
        if isinstance(entry, list):
            return [fill(each) for each in entry]
        if isinstance(entry, dict):
            return {name: fill(each) for name, each in entry.items()}
        if isinstance(entry, str) and entry.startswith("generated:"):
            at = REFERENCE / entry.removeprefix("generated:")
            rest = sorted(path.name for path in at.glob("*.md") if path.name != "README.md")
            return [f"reference/{at.name}/{name}" for name in ["README.md", *rest]]
        return entry

    config.nav = fill(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are generated, and llms.txt."""
    files.append(File.generated(config, "dev/adr/README.md", content=decisions()))
    for path in sorted(REFERENCE.glob("*/*.md")):
        name = f"reference/{path.relative_to(REFERENCE).as_posix()}"
        files.append(File.generated(config, name, content=path.read_text(encoding="utf-8")))
    llms = (ROOT / "llms.txt").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "llms.txt", content=llms))
    return files


def outside(base: str, target: str, repository: str) -> str:
    """Returns the target of a link of the page base, for the site."""
    if SCHEME.match(target):
        return target
    name, hash_, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(base), name))
    if path == "llms.txt":
        return posixpath.relpath("llms.txt", posixpath.dirname(base) or ".")
    at = ROOT / path
    if at.is_dir() and (path.startswith("docs/")):
        return posixpath.join(name, "README.md") + hash_ + anchor
    if path.startswith("docs/") or not at.exists():
        return target
    return f"{repository}/{'tree' if at.is_dir() else 'blob'}/main/{path}{hash_}{anchor}"


def outside_code(text: str, change: str, repository: str) -> str:
    """Returns a page with its links outside of code blocks changed."""
    code, lines = False, []
    for line in text.split("\n"):
        if FENCE.match(line):
            code = not code
        elif not code:
            line = LINK.sub(lambda m: m[1] + outside(change, m[2], repository) + m[3], line)
        lines.append(line)
    return "\n".join(lines)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Changes the links of a page, and keeps the page for its copy."""
    del files
    text = outside_code(markdown, page.file.src_uri, config.repo_url)
    pages[page.file.src_uri] = text
    return text


def on_post_build(config: MkDocsConfig) -> None:
    """Writes the Markdown beside the HTML."""
    site = Path(config.site_dir)
    for name, text in pages.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
