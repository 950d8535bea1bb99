"""Answers in one form, so that those of different databases can be compared."""

import datetime
import decimal
import uuid

# Approximate quantiles of a long tail may differ by so much.
TOLERANCE = 0.15
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def value(given):
    """Times as microseconds, ids as hex, numbers as they are."""
    if isinstance(given, datetime.datetime):
        if given.tzinfo is None:
            given = given.replace(tzinfo=datetime.timezone.utc)
        return round((given - EPOCH) / datetime.timedelta(microseconds=1))
    if isinstance(given, bytes):
        try:
            return given.decode()
        except UnicodeDecodeError:
            return given.hex()
    if isinstance(given, decimal.Decimal):
        return float(given)
    return given


def event_id(given):
    if isinstance(given, uuid.UUID):
        return given.hex
    if isinstance(given, bytes):
        return given.hex()
    return given.replace("-", "").lower()


def normal(name, table):
    """What of the answer to query `name` must be the same everywhere; None: not known."""
    if table is None:
        return None
    if name in ("q01", "q02", "q03a", "q03b"):
        return sorted(event_id(id) for id in table.column("event_id").to_pylist())
    if name == "q14":
        import pyarrow.compute as pc

        return [table.num_rows, pc.sum(table.column("_seq")).as_py()]
    columns = [[value(cell) for cell in column.to_pylist()] for column in table.columns]
    rows = [list(row) for row in zip(*columns)]
    if name in ("q06", "q12"):
        # An hour may come as seconds.
        rows = [[row[0] * 1_000_000 if row[0] < 10**11 else row[0], *row[1:]] for row in rows]
    return sorted(rows, key=str)


def same(name, ours, theirs):
    if theirs is None or name != "q07":
        return theirs is None or ours == theirs
    ours, theirs = dict(ours), dict(theirs)
    near = lambda a, b: abs(a - b) <= TOLERANCE * max(abs(a), abs(b))
    return ours.keys() == theirs.keys() and all(near(ours[key], theirs[key]) for key in ours)
