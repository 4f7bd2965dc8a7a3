"""LangGraph with its PostgreSQL checkpointer."""

from adapters.langgraph_loop import LangGraph, builder
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool


class Adapter(LangGraph):
    """`place`: {dsn}."""

    async def open(self) -> None:
        self.pool = AsyncConnectionPool(
            self.place["dsn"], min_size=1, max_size=32, open=False,
            kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        )
        await self.pool.open(wait=True)
        saver = AsyncPostgresSaver(self.pool)
        await saver.setup()
        self.graph = builder().compile(checkpointer=saver)

    async def close(self) -> None:
        await self.pool.close()
