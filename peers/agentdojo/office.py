"""A real sidecar with three people: the model's program, and a person who approves."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

from pawl_client import Client
from pawl_client.testing import Sidecar

import packs

SCOPES = {
    "model": "runs:write,runs:read",
    "person": "runs:read,events:external",
}


class Office:
    """A sidecar that has the packs of all suites, knows who is who, and allows the tools
    that a pack names."""

    def __init__(self, suites: dict[str, Any]) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="pawl-injection-")
        directory = Path(self._directory.name)
        tokens = {name: secrets.token_hex(16) for name in SCOPES}
        file = directory / "tokens"
        file.touch(mode=0o600)
        digests = {name: sha256(tokens[name].encode()).hexdigest() for name in SCOPES}
        file.write_text(
            "".join(f"{name} {SCOPES[name]} sha256:{digests[name]}\n" for name in SCOPES)
        )
        written = []
        for name, suite in suites.items():
            written.append(directory / f"{name}.pack.json")
            written[-1].write_text(json.dumps(packs.pack_of(name, suite.tools)))
        allowed = sorted({tool for name in suites for tool in packs.tools_of(name)})
        self._sidecar = Sidecar(packs=written, allow_tools=allowed, flags=[f"--tokens-file={file}"])
        self._tokens = tokens

    def __enter__(self) -> Office:
        self._sidecar.__enter__()
        self.model = self._client("model")
        self.person = self._client("person")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.model.close()
        self.person.close()
        self._sidecar.__exit__(kind, error, trace)
        self._directory.cleanup()

    def _client(self, name: str) -> Client:
        return self._sidecar.client(token=self._tokens[name])

    def approver(self, wanted: list[Any], careless: bool) -> Callable[[str], bool]:
        """A person who approves what the user asked for, and nothing else; a careless one
        approves whatever is shown."""
        left = [(tool, payload) for tool, payload in wanted]

        def decide(run_id: str) -> bool:
            run = self.person.attach(run_id)
            shown = run.artifacts()["proposal"]
            call = (shown["tool"], shown["payload"])
            known = call in left
            if known:
                left.remove(call)
            approved = known or careless
            run.emit("Approved" if approved else "Rejected")
            return approved

        return decide
