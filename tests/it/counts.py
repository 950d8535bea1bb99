"""Rows of a statement by a client of some protocol, as JSON: its NAME in WAYS, the ADDRESS, the SQL."""

import json
import sys


def flight(address, sql):
    import adbc_driver_flightsql.dbapi as flight_sql

    with flight_sql.connect(f"grpc://{address}", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return [list(row) for row in cursor.fetchall()]


def postgres(address, sql):
    import psycopg

    host, port = address.split(":")
    with psycopg.connect(host=host, port=port, user="me", dbname="sealcast") as connection:
        return [list(row) for row in connection.execute(sql).fetchall()]


WAYS = {"flight": flight, "postgres": postgres}

name, address, sql = sys.argv[1:]
print(json.dumps(WAYS[name](address, sql)))
