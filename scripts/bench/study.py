"""The earlier study's table: what the goal of each query is computed from."""

# Milliseconds, hot, two threads, 20 million rows: (our mapped layout, DuckDB native).
EARLIER = {
    "q01": (0.6, 153),
    "q02": (1.7, 10.6),
    "q03a": (4.4, 13.0),
    "q03b": (2.1, 26.8),
    "q04a": (29.8, 12.3),
    "q04b": (5.4, 3.7),
    "q05": (144, 47.9),
    "q06": (1795, 1730),
    "q07": (823, 941),
    "q08": (619, 1999),
    "q09": (1928, 2536),
    "q10": (0.8, 0.7),
    "q11": (0.9, 1.0),
    "q12": (238, 165),
    "q13": (3982, 1302),
    "q14": (38.3, 516),
}
# Our quotient may be so many times the earlier one.
SLACK = 1.3


def allowed(name):
    """The greatest quotient (our time / DuckDB native's) that meets the goal."""
    ours, duckdb = EARLIER[name]
    return SLACK * ours / duckdb
