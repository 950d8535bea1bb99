"""A client of Arrow Flight that reads no more than it is told to: CLIENT, ADDRESS, SQL, and the QUERY_ID that it gives. It
prints "begun" after the first batch, then obeys lines: "cancel", or "read" to the end, of which it tells how it came."""

import sys

client, address, sql, query_id = sys.argv[1:]
URL = f"grpc://{address}"


def adbc():
    import adbc_driver_flightsql.dbapi as flight_sql

    options = {"adbc.flight.sql.rpc.call_header.sealcast-query-id": query_id}
    connection = flight_sql.connect(URL, db_kwargs=options, autocommit=True)
    cursor = connection.cursor()
    cursor.execute(sql)
    reader = cursor.fetch_record_batch()
    return reader.read_next_batch, cursor.adbc_cancel, connection


def pyarrow():
    from pyarrow import flight

    connection = flight.FlightClient(URL)
    options = flight.FlightCallOptions(headers=[(b"sealcast-query-id", query_id.encode())])
    reader = connection.do_get(flight.Ticket(sql.encode()), options)
    return reader.read_chunk, reader.cancel, connection


read, cancel, connection = {"adbc": adbc, "pyarrow": pyarrow}[client]()
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
