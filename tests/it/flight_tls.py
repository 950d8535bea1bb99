"""Clients of Arrow Flight over TLS: ADDRESS, the file of its ROOT certificate, COUNT of its events, TOKEN. The root lets
them in; without it they refuse the server; in plain text they get nothing. Each says so clearly."""

import sys
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
from influxdb_client_3 import InfluxDBClient3
from pyarrow import flight

ADDRESS, ROOT, COUNT, TOKEN = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
PEM = Path(ROOT).read_text()
SQL = "select count(*) as n from events"


def adbc(scheme, root):
    options = {"adbc.flight.sql.authorization_header": f"Bearer {TOKEN}"}
    if root:
        options["adbc.flight.sql.client_option.tls_root_certs"] = PEM
    url = f"{scheme}://{ADDRESS}"
    with flight_sql.connect(url, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(SQL)
        return cursor.fetchone()[0]


def pyarrow_flight(scheme, root):
    options = flight.FlightCallOptions(timeout=60, headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    with flight.FlightClient(f"{scheme}://{ADDRESS}", **({"tls_root_certs": PEM} if root else {})) as client:
        return client.do_get(flight.Ticket(SQL.encode()), options).read_all()["n"][0].as_py()


def influxdb3(scheme, root):
    host = f"{'https' if 'tls' in scheme else 'http'}://{ADDRESS}"
    with InfluxDBClient3(host=host, token=TOKEN, database="sealcast", **({"ssl_ca_cert": ROOT} if root else {})) as client:
        return client.query(SQL)["n"][0].as_py()


def refusal(client, *how):
    try:
        found = client(*how)
    except Exception as error:
        return str(error)
    raise AssertionError(f"{client.__name__} {how}: {found}")


for client in (adbc, pyarrow_flight, influxdb3):
    assert client("grpc+tls", True) == COUNT, client
    stranger = refusal(client, "grpc+tls", False)
    assert "certificate" in stranger and "verif" in stranger, stranger
    plain = refusal(client, "grpc", False)
    assert "unexpected EOF" in plain or "Socket closed" in plain, plain
