"""Begins the run of an agent that a library runs, or continues it; adapters share it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from pawl_client._durable_errors import DuplicateAgentError, RunChangedError, ToolChangedWarning
from pawl_client._durable_pack import AgentTool, changed_code, changed_tools, pack_id
from pawl_client._durable_run import AnyClient, DurableRun
from pawl_client._errors import IdReusedError

_REQUEST_LABEL = "pawl-request-id"
_packs: WeakKeyDictionary[AnyClient, dict[str, tuple[ReferenceType[Any], str]]] = (
    WeakKeyDictionary()
)
"""The agent of each name in this process and its pack, by client and name."""
_packs_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What begins a run: the agent with its pack, and the input under a `request_id`.

    `owner` is the library's agent, which must be the only one with `name` in this process unless
    its pack is the same. `input` is the text of the first message; None: the run has none. `advice`
    says how to give the agent another name.
    """

    client: AnyClient
    name: str
    owner: object
    pack: str
    tools: Mapping[str, AgentTool]
    request_id: str
    advice: str
    labels: Mapping[str, str] = field(default_factory=dict)
    input: str | None = None

    async def open(self) -> DurableRun:
        """Returns the run, whose turn is executed here.

        Raises DurableRunError, RunChangedError, DuplicateAgentError, and the client's errors.
        """
        run = DurableRun(self.client)
        digest = await self._register(run)
        what = {
            "request_id": self.request_id,
            "labels": {**self.labels, _REQUEST_LABEL: self.request_id[:256]},
            "input": self.input,
        }
        try:
            begun = await run.begin(digest, **what)
        except IdReusedError as error:
            begun = await self._continue(run, error)
        if begun != digest:
            self._compare(run, await run.get_pack(begun))
        await run.serve()
        return run

    def _compare(self, run: DurableRun, pack: bytes) -> None:
        """Compares the tools with those of the pack that the run began with."""
        if changed := changed_tools(pack, self.tools.values()):
            raise RunChangedError(
                f"run {run.id} was begun with other parameters of {', '.join(changed)}; continue "
                "it with the program that began it, or give another request_id",
                run_id=run.id,
                tools=changed,
            )
        if changed := changed_code(pack, self.tools.values()):
            warnings.warn(
                f"run {run.id} was begun with other code of {', '.join(changed)}: its recorded "
                "results are those of the code before",
                ToolChangedWarning,
                stacklevel=2,
            )

    async def _register(self, run: DurableRun) -> str:
        """Registers the pack. Raises DuplicateAgentError if another agent has its name."""
        name = pack_id(self.name)
        with _packs_lock:
            packs = _packs.setdefault(self.client, {})
            known, its_pack = packs.get(name, (None, ""))
            other = known() if known is not None else None
            if self.owner is not None and (
                other is None or other is self.owner or its_pack == self.pack
            ):
                packs[name], its_pack = (ref(self.owner), self.pack), self.pack
        if its_pack != self.pack:
            raise DuplicateAgentError(
                f"two agents have the pack {name!r}, but different tools or bounds; give one of "
                f"them another name, {self.advice}",
                reason="DUPLICATE_AGENT",
            )
        return await run.register_pack(self.pack)

    async def _continue(self, run: DurableRun, error: IdReusedError) -> str:
        """Continues the run that began with another pack. Raises the error for another input."""
        found = await run.find(_REQUEST_LABEL, self.request_id)
        if found is None:
            raise error
        digest = await run.attach(found)
        if self.input is not None and await run.first_input() != self.input:
            raise error
        return digest
