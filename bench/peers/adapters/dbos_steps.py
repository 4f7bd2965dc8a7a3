"""DBOS: a run is a workflow, an event a step whose result it records."""

from collections.abc import Awaitable, Callable

from adapters.peer import EVENTS, Acknowledged, Peer, payload
from dbos import DBOS, DBOSConfig, SetWorkflowID


@DBOS.step()
async def record(event: str) -> str:
    return event


class Hooks:
    """Receives the steps. Workflows of an earlier process begin before it is set."""

    timed: Callable[[Awaitable[None]], Awaitable[None]] | None = None
    acknowledged: Acknowledged | None = None


@DBOS.workflow()
async def whole_run(run: str) -> None:
    _tell(run, 0)
    for seq in range(1, EVENTS + 1):
        step = record(payload(run, seq))
        await (Hooks.timed(step) if Hooks.timed else step)
        _tell(run, seq)


def _tell(run: str, seq: int) -> None:
    if Hooks.acknowledged:
        Hooks.acknowledged(run, seq)


class Adapter(Peer):
    """`place`: {dsn}."""

    async def open(self) -> None:
        dsn = self.place["dsn"].replace("postgresql://", "postgresql+psycopg://")
        DBOS(config=DBOSConfig(name="bench-peers", system_database_url=dsn, log_level="ERROR",
                               sys_db_pool_size=32, application_version="1"))
        DBOS.launch()

    async def close(self) -> None:
        DBOS.destroy()

    async def loop(
        self, run: str, begin: int, timed: Callable[[Awaitable[None]], Awaitable[None]],
        acknowledged: Acknowledged,
    ) -> None:
        Hooks.timed, Hooks.acknowledged = timed, acknowledged
        with SetWorkflowID(run):
            handle = await DBOS.start_workflow_async(whole_run, run)
        await handle.get_result()
        acknowledged(run, EVENTS + 1)

    async def read(self, run: str) -> list[str]:
        return [str(step["output"]) for step in await DBOS.list_workflow_steps_async(run)]
