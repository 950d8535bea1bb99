"""SQLAlchemy 2 by sqlalchemy-adbc: ADDRESS, COUNT of its events, TENANT and its count, TOKEN. Apart from
flight.py, which has SQLAlchemy 1.4 for flightsql-dbapi."""

import sys
import warnings

from sqlalchemy import MetaData, Table, create_engine, func, inspect, select, text

warnings.filterwarnings("ignore", "Cannot disable autocommit")  # it only reads
address, count, tenant, own, token = sys.argv[1:]
engine = create_engine(f"adbc+flightsql://me:{token}@{address}?tls=false")
with engine.connect() as connection:
    assert connection.execute(text("select count(*) from events")).scalar() == int(count)
    bound = connection.execute(text("select count(*) from events where tenant = :tenant"), {"tenant": tenant})
    assert bound.scalar() == int(own)
    events = Table("events", MetaData(), autoload_with=connection)
    assert "event_id" in events.c and "_seq" in events.c
    rows = connection.execute(
        select(events.c.tenant, func.count()).where(events.c.tenant == tenant).group_by(events.c.tenant)
    )
    assert rows.all() == [(tenant, int(own))]
    assert len(connection.execute(select(events).limit(3)).all()) == 3
inspector = inspect(engine)
assert inspector.get_schema_names() == ["public", "sealcast"]
assert inspector.has_table("events") and not inspector.has_table("zzz")
# It lists tables whose type is "table"; ours are "BASE TABLE", as Grafana wants them (docs/clients.md).
assert inspector.get_table_names() == []
