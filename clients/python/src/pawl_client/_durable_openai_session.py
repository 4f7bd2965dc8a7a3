"""A session of the OpenAI Agents SDK that a durable run uses."""

from __future__ import annotations

from typing import Any

from agents import Session

from pawl_client._durable_openai_run import AgentRun

SESSION_LABEL = "pawl-session-items"
"""Label of a run: the number of items that the session had when the run began."""
_ALL_ITEMS = 2**31 - 1


class DurableSession:
    """A session as the run found it at its beginning, with the items of the run itself.

    A later execution finds the same history, and adds only the items that are missing.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._run: AgentRun | None = None
        self._before = 0
        self._own = 0
        self._opened = False
        self.session_id = session.session_id
        self.session_settings = getattr(session, "session_settings", None)

    def use(self, run: AgentRun) -> None:
        """Sets the run that uses the session."""
        self._run = run

    async def count(self) -> int:
        """Returns the number of items that the session has."""
        return len(await self._session.get_items(limit=_ALL_ITEMS))

    async def _open(self) -> None:
        if not self._opened and self._run is not None:
            run = await self._run.opened()
            self._before = int(run.labels.get(SESSION_LABEL, "0"))
            self._opened = True

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Returns the history at the beginning of the run, and the items of this execution."""
        await self._open()
        items = await self._session.get_items(limit=_ALL_ITEMS)
        seen = items[: self._before + self._own]
        most = limit if limit is not None else getattr(self.session_settings, "limit", None)
        return seen if most is None else seen[max(0, len(seen) - most) :]

    async def add_items(self, items: list[Any]) -> None:
        """Adds the items that an earlier execution has not added."""
        await self._open()
        missing = items[max(0, await self.count() - self._before - self._own) :]
        if missing:
            await self._session.add_items(missing)
        self._own += len(items)

    async def pop_item(self) -> Any:
        """Removes the last item."""
        await self._open()
        self._own = max(0, self._own - 1)
        return await self._session.pop_item()

    async def clear_session(self) -> None:
        """Removes all items."""
        self._before = self._own = 0
        await self._session.clear_session()
