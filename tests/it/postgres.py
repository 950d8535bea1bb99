"""Real clients of PostgreSQL's protocol against a running replica: HOST, PORT, COUNT of its events, TENANT and its
count, and a TOKEN, if it asks for one. Each of CLIENTS prints its name, or `skipped: name: why`."""

import importlib.util
import sys

HOST, PORT, COUNT, TENANT, OWN = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
TOKEN = sys.argv[6] if len(sys.argv) > 6 else None
SQL = "select count(*) from events"


def psycopg():
    import datetime
    import uuid

    import psycopg as pg

    where = {"host": HOST, "port": PORT, "user": "me", "password": TOKEN, "dbname": "sealcast"}
    with pg.connect(**where) as connection:
        assert connection.execute(SQL).fetchone()[0] == COUNT
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                cursor.execute("select count(*) from events where tenant = %s and _seq >= %s", (TENANT, 0))
                assert cursor.fetchone()[0] == OWN, binary
                cursor.execute("select count(*) from events where time > %s", (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),))
                assert cursor.fetchone()[0] == COUNT
                cursor.execute("select event_id, time, tenant, severity, targets, attributes from events limit 1")
                row = cursor.fetchone()
                assert isinstance(row[0], uuid.UUID) and isinstance(row[1], datetime.datetime), row
                cursor.execute("select count(*) from events where event_id = %s", (row[0],))
                assert cursor.fetchone()[0] == 1
        with connection.cursor(name="paged") as cursor:
            cursor.itersize = 100
            cursor.execute("select message from events")
            assert sum(1 for _ in cursor) == COUNT
        with connection.cursor() as cursor, cursor.copy("copy (select tenant, message from events) to stdout") as copy:
            assert sum(1 for _ in copy.rows()) == COUNT
    with pg.connect(**where, autocommit=True) as connection:
        for refused, state in (("delete from events", "25006"), ("select zzz from events", "42703"), ("select * from zzz", "42P01")):
            try:
                connection.execute(refused)
            except pg.Error as error:
                assert error.sqlstate == state, (refused, error.sqlstate, error)
            else:
                raise AssertionError(refused)
        # Prepared by the driver after some uses.
        for _ in range(8):
            assert connection.execute("select count(*) from events where tenant = %s", (TENANT,)).fetchone()[0] == OWN
    if TOKEN:
        try:
            pg.connect(**where | {"password": "wrong"})
        except pg.OperationalError as error:
            assert "password authentication failed" in str(error), error
        else:
            raise AssertionError("a wrong password is taken")


def asyncpg():
    import asyncio
    import datetime

    import asyncpg as pg

    async def main():
        connection = await pg.connect(host=HOST, port=PORT, user="me", password=TOKEN, database="sealcast", ssl=False)
        assert await connection.fetchval(SQL) == COUNT
        assert await connection.fetchval("select count(*) from events where tenant = $1", TENANT) == OWN
        since = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        assert await connection.fetchval("select count(*) from events where time > $1 and _seq >= $2", since, 0) == COUNT
        row = await connection.fetchrow("select event_id, time, tenant, severity, attributes from events limit 1")
        assert await connection.fetchval("select count(*) from events where event_id = $1", row["event_id"]) == 1
        async with connection.transaction(readonly=True):
            seen = 0
            async for _ in connection.cursor("select message from events", prefetch=50):
                seen += 1
        assert seen == COUNT, seen
        try:
            await connection.fetch("delete from events")
        except pg.PostgresError as error:
            assert error.sqlstate == "25006", error.sqlstate
        else:
            raise AssertionError("a write is taken")
        await connection.reset()
        await connection.close()

    asyncio.run(main())


CLIENTS = [psycopg, asyncpg]

if __name__ == "__main__":
    for client in CLIENTS:
        if importlib.util.find_spec(client.__name__) is None:
            print(f"skipped: {client.__name__}: is not installed (run scripts/setup)")
            continue
        client()
        print(client.__name__)
