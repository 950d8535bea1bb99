"""Real clients of Arrow Flight SQL against a running replica: ADDRESS, COUNT of its events, TENANT and its
count, and a TOKEN, if it asks for one. Each of CLIENTS prints its name, or `skipped: name: why`."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ADDRESS, COUNT, TENANT, OWN = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
TOKEN = sys.argv[5] if len(sys.argv) > 5 else "word"
BEARER = {"adbc.flight.sql.authorization_header": f"Bearer {TOKEN}"}
SQL = "select count(*) as n from events"
# What scripts/setup has put apart: SQLAlchemy 2.
APART = Path(sys.prefix, "apart")


def adbc():
    import adbc_driver_flightsql.dbapi as flight_sql

    with flight_sql.connect(f"grpc://{ADDRESS}", db_kwargs=BEARER, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(SQL)
        assert cursor.fetchone()[0] == COUNT
        cursor.execute("select count(*) from events where tenant = ?", (TENANT,))
        assert cursor.fetchone()[0] == OWN
        cursor.execute("select count(*) from events where _seq < ? and time > ?", (10**9, "2000-01-01T00:00:00Z"))
        assert cursor.fetchone()[0] == COUNT
        cursor.execute("select * from events")
        table = cursor.fetch_arrow_table()
        assert table.num_rows == COUNT, table.num_rows
        schema = connection.adbc_get_table_schema("events")
        assert schema.names == table.schema.names
        assert list(schema.types) == list(table.schema.types)
        objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        names = [t["table_name"] for s in objects[0]["catalog_db_schemas"] for t in s["db_schema_tables"]]
        assert "events" in names and "segments" in names, names
        assert connection.adbc_get_table_types() == ["BASE TABLE", "SYSTEM TABLE", "VIEW"]
        assert connection.adbc_get_info()["vendor_name"] == "sealcast"
        assert connection.adbc_current_catalog == "sealcast"
        partitions, schema = cursor.adbc_execute_partitions("select tenant from events")
        assert len(partitions) == 1, partitions
        cursor.adbc_read_partition(partitions[0])
        assert cursor.fetch_arrow_table().num_rows == COUNT
        assert cursor.adbc_execute_schema("select tenant, _seq from events").names == ["tenant", "_seq"]
        for refused in ("delete from events", "select zzz from events"):
            try:
                cursor.execute(refused)
            except flight_sql.Error as error:
                assert "not allowed" in str(error) or "does not exist" in str(error), error
            else:
                raise AssertionError(refused)


def adbc_login():
    import adbc_driver_flightsql.dbapi as flight_sql

    # Names of each length: the driver leaves the padding out of what it sends.
    for name in ("m", "me", "you"):
        options = {"username": name, "password": TOKEN}
        with flight_sql.connect(f"grpc://{ADDRESS}", db_kwargs=options, autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute(SQL)
                assert cursor.fetchone()[0] == COUNT
    if len(sys.argv) > 5:
        try:
            flight_sql.connect(f"grpc://{ADDRESS}", db_kwargs={"username": "me", "password": "wrong"})
        except flight_sql.Error as error:
            assert "token is not known here" in str(error), error
        else:
            raise AssertionError("a wrong password is taken")


def adbc_native():
    import adbc_driver_flightsql.dbapi as flight_sql

    options = BEARER | {"adbc.flight.sql.rpc.call_header.x-sealcast-arrow": "native"}
    with flight_sql.connect(f"grpc://{ADDRESS}", db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("select tenant, action, time from events")
        table = cursor.fetch_arrow_table()
        assert table.num_rows == COUNT
        assert "dictionary" in str(table.schema.field("tenant").type), table.schema


def pandas():
    import adbc_driver_flightsql.dbapi as flight_sql
    import pandas

    with flight_sql.connect(f"grpc://{ADDRESS}", db_kwargs=BEARER, autocommit=True) as connection:
        frame = pandas.read_sql("select * from events", connection)
        assert len(frame) == COUNT  # parameters: pandas refuses them for every ADBC driver


def polars():
    import adbc_driver_flightsql.dbapi as flight_sql
    import polars

    with flight_sql.connect(f"grpc://{ADDRESS}", db_kwargs=BEARER, autocommit=True) as connection:
        assert polars.read_database("select * from events", connection).height == COUNT


def pyarrow_flight():
    import json

    from pyarrow import flight

    with flight.FlightClient(f"grpc://{ADDRESS}") as client:
        shown = client.authenticate_basic_token("me", TOKEN)
        assert shown[0] == b"authorization" and shown[1].startswith(b"Bearer "), shown
        call = flight.FlightCallOptions(headers=[shown])
        ask = {"database": "sealcast", "sql_query": SQL, "query_type": "sql", "params": {}}
        table = client.do_get(flight.Ticket(json.dumps(ask)), call).read_all()
        assert table["n"][0].as_py() == COUNT
        info = client.get_flight_info(flight.FlightDescriptor.for_path("events"), call)
        assert client.do_get(info.endpoints[0].ticket, call).read_all().num_rows == COUNT
        schema = client.get_schema(flight.FlightDescriptor.for_command(b"select tenant from events"), call).schema
        assert schema.names == ["tenant"]
        assert len(list(client.list_actions(call))) == 8
        assert "events" in [info.descriptor.path[-1].decode() for info in client.list_flights(options=call)]


def flightsql():
    from flightsql import FlightSQLClient
    from flightsql.client import TableRef

    host, port = ADDRESS.split(":")
    client = FlightSQLClient(host=host, port=int(port), insecure=True, token=TOKEN)
    info = client.execute(SQL)
    assert client.do_get(info.endpoints[0].ticket).read_all()["n"][0].as_py() == COUNT
    info = client.get_tables(include_schema=True)
    assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 9
    info = client.get_primary_keys(TableRef(table="events"))
    assert client.do_get(info.endpoints[0].ticket).read_all()["column_name"].to_pylist() == ["_shard", "_seq"]


def sqlalchemy():
    import flightsql.sqlalchemy  # noqa: F401: registers the dialect
    from sqlalchemy import create_engine, inspect, text

    engine = create_engine(f"datafusion+flightsql://me:{TOKEN}@{ADDRESS}?insecure=True")
    with engine.connect() as connection:
        assert connection.execute(text(SQL)).scalar() == COUNT
    names = inspect(engine).get_table_names()
    assert "events" in names, names


def sqlalchemy_adbc():
    script = Path(__file__).with_name("sqlalchemy2.py")
    environment = os.environ | {"PYTHONPATH": str(APART)}
    subprocess.run([sys.executable, script, *sys.argv[1:5], TOKEN], env=environment, check=True)


def duckdb():
    import adbc_driver_flightsql.dbapi as flight_sql
    import duckdb

    # Times as numbers: DuckDB gives them to Python by way of pytz, which nothing here installs.
    sql = """select tenant, action, count(*), sum(_seq)::bigint, count(distinct message), max({}) from {}
        group by 1, 2 order by 1, 2"""
    with flight_sql.connect(f"grpc://{ADDRESS}", db_kwargs=BEARER, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql.format("time::bigint", "events"))
        ours = cursor.fetchall()
        cursor.execute("select * from events")
        reader = cursor.fetch_record_batch()  # noqa: F841: DuckDB finds it by its name
        theirs = duckdb.connect().execute(sql.format("epoch_us(time)", "reader")).fetchall()
    assert theirs == ours and sum(row[2] for row in ours) == COUNT, (theirs, ours)


def influxdb3():
    from influxdb_client_3 import InfluxDBClient3

    with InfluxDBClient3(host=f"http://{ADDRESS}", token=TOKEN, database="sealcast") as client:
        assert client.query(SQL)["n"][0].as_py() == COUNT
        own = client.query(
            "select count(*) as n from events where tenant = $tenant", query_parameters={"tenant": TENANT}
        )
        assert own["n"][0].as_py() == OWN


CLIENTS = {
    adbc: ["adbc_driver_flightsql", "pyarrow"],
    adbc_login: ["adbc_driver_flightsql", "pyarrow"],
    adbc_native: ["adbc_driver_flightsql", "pyarrow"],
    pandas: ["adbc_driver_flightsql", "pandas"],
    polars: ["adbc_driver_flightsql", "polars"],
    pyarrow_flight: ["pyarrow"],
    flightsql: ["flightsql"],
    sqlalchemy: ["flightsql", "sqlalchemy"],
    sqlalchemy_adbc: ["adbc_driver_flightsql", "apart/sqlalchemy_adbc"],
    duckdb: ["adbc_driver_flightsql", "duckdb"],
    influxdb3: ["influxdb_client_3"],
}


def there(module):
    name = module.removeprefix("apart/")
    return (APART / name).is_dir() if module != name else importlib.util.find_spec(name) is not None

failed = 0
for client, modules in CLIENTS.items():
    absent = [module for module in modules if not there(module)]
    if absent:
        print(f"skipped: {client.__name__}: no {', '.join(absent)}")
        continue
    try:
        client()
        print(client.__name__)
    except BaseException:  # one client's defect hides no other's
        import traceback

        traceback.print_exc()
        print(f"failed: {client.__name__}")
        failed += 1
sys.exit(1 if failed else 0)
