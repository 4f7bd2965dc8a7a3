"""PostgreSQL by hand: a row a transition and the run's row in one transaction."""

from adapters.peer import Peer
from psycopg_pool import AsyncConnectionPool

TABLES = """
CREATE TABLE IF NOT EXISTS run (id text PRIMARY KEY, seq int NOT NULL, ended bool NOT NULL);
CREATE TABLE IF NOT EXISTS transition (
    run text REFERENCES run, seq int, payload text NOT NULL, PRIMARY KEY (run, seq)
);
"""


class Adapter(Peer):
    """`place`: {dsn}."""

    async def open(self) -> None:
        self.pool = AsyncConnectionPool(self.place["dsn"], min_size=1, max_size=32, open=False)
        await self.pool.open(wait=True)
        async with self.pool.connection() as connection:
            await connection.execute(TABLES)

    async def close(self) -> None:
        await self.pool.close()

    async def start(self, run: str) -> None:
        async with self.pool.connection() as connection:
            await connection.execute(
                "INSERT INTO run VALUES (%s, 0, false) ON CONFLICT DO NOTHING", (run,)
            )

    async def event(self, run: str, seq: int, payload: str) -> None:
        async with self.pool.connection() as connection:
            await connection.execute(
                "INSERT INTO transition VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (run, seq, payload),
            )
            await connection.execute("UPDATE run SET seq = %s WHERE id = %s", (seq, run))

    async def end(self, run: str) -> None:
        async with self.pool.connection() as connection:
            await connection.execute("UPDATE run SET ended = true WHERE id = %s", (run,))

    async def read(self, run: str) -> list[str]:
        async with self.pool.connection() as connection:
            rows = await connection.execute("SELECT payload FROM transition WHERE run = %s", (run,))
            return [row[0] for row in await rows.fetchall()]
