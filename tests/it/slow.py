"""A client of Arrow Flight or PostgreSQL's protocol that reads no more than it is told to: CLIENT, ADDRESS, SQL. It prints
"begun" after the first batch, then obeys lines: "cancel", or "read" to the end, of which it tells how it came."""

import sys

client, address, sql = sys.argv[1:]
URL = f"grpc://{address}"


def adbc():
    import adbc_driver_flightsql.dbapi as flight_sql

    connection = flight_sql.connect(URL, autocommit=True)
    cursor = connection.cursor()
    cursor.execute(sql)
    reader = cursor.fetch_record_batch()
    return reader.read_next_batch, cursor.adbc_cancel, connection


def pyarrow():
    from pyarrow import flight

    connection = flight.FlightClient(URL)
    reader = connection.do_get(flight.Ticket(sql.encode()))
    return reader.read_chunk, reader.cancel, connection


def psycopg():
    import psycopg as pg

    host, port = address.split(":")
    connection = pg.connect(host=host, port=port, user="me", dbname="sealcast", autocommit=True)
    rows = connection.cursor().stream(sql)
    return lambda: next(rows), connection.cancel, connection


read, cancel, connection = {"adbc": adbc, "pyarrow": pyarrow, "psycopg": psycopg}[client]()
read()
print("begun", flush=True)
for line in sys.stdin:
    try:
        if line == "cancel\n":
            cancel()
        while True:
            read()
    except StopIteration:
        print("complete", flush=True)
    except Exception as error:
        print(str(error).replace("\n", " "), flush=True)
