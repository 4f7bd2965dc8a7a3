"""LangGraph with its SQLite checkpointer, in WAL mode with synchronous=FULL."""

import aiosqlite
from adapters.langgraph_loop import LangGraph, builder
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


class Adapter(LangGraph):
    """`place`: {file}."""

    async def open(self) -> None:
        self.connection = await aiosqlite.connect(self.place["file"])
        await self.connection.execute("PRAGMA synchronous=FULL")
        saver = AsyncSqliteSaver(self.connection)
        await saver.setup()
        self.graph = builder().compile(checkpointer=saver)

    async def close(self) -> None:
        await self.connection.close()
