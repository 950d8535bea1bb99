"""The databases beside which sealcast is measured: load once, ask often, answer as Arrow."""

import atexit
import os
import pathlib
import shutil
import subprocess
import tempfile

import dialects

# Columns with few values, where a database has a type for them.
LABELS = [
    "tenant", "action", "category", "actor_type", "target_type", "outcome", "outcome_reason",
    "user_agent", "service",
]


def files(data):
    return str(pathlib.Path(data) / "parquet" / "*.parquet")


class DuckNative:
    """DuckDB's own table; times without zone, event_id as UUID, as its users would store them."""

    name = "DuckDB native"

    def __init__(self, data, parameters):
        import duckdb

        self.version = duckdb.__version__
        file = pathlib.Path(data) / "peers" / "duckdb.db"
        file.parent.mkdir(exist_ok=True)
        if not file.exists():
            loading = file.with_suffix(".loading")
            loading.unlink(missing_ok=True)
            with duckdb.connect(str(loading)) as con:
                con.execute("set timezone = 'UTC'")
                con.execute(
                    "create table events as select * replace ("
                    "hex(event_id)::uuid as event_id, time at time zone 'UTC' as time, "
                    f"ingested_at at time zone 'UTC' as ingested_at) from '{files(data)}'"
                )
                con.execute("checkpoint")
            loading.rename(file)
        self.con = duckdb.connect(str(file), read_only=True)
        self.con.execute("set timezone = 'UTC'")
        self.queries = dialects.DuckNative().queries(parameters)

    def ask(self, query):
        return self.con.execute(query).to_arrow_table()


class DuckParquet:
    """DuckDB over the Parquet files."""

    name = "DuckDB on Parquet"

    def __init__(self, data, parameters):
        import duckdb

        self.version = duckdb.__version__
        self.con = duckdb.connect()
        self.con.execute("set timezone = 'UTC'")
        self.con.execute(f"create view events as select * from '{files(data)}'")
        self.queries = dialects.DuckParquet().queries(parameters)

    def ask(self, query):
        return self.con.execute(query).to_arrow_table()


class Chdb:
    """ClickHouse in a library: MergeTree ordered by tenant and time, few-valued text as codes."""

    name = "chDB MergeTree"

    def __init__(self, data, parameters):
        import chdb
        from chdb.session import Session

        self.version = chdb.__version__
        folder = pathlib.Path(data) / "peers" / "chdb"
        done = folder.with_suffix(".done")
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        self.session = Session(str(folder))
        self.session.query("create database if not exists bench engine = Atomic")
        self.session.query("use bench")
        if not done.exists():
            codes = ", ".join(f"toLowCardinality({label}) as {label}" for label in LABELS)
            self.session.query(
                "create table events engine = MergeTree order by (tenant, time) "
                f"as select * replace ({codes}) from file('{files(data)}', Parquet)"
            )
            self.session.query("optimize table events final")
            done.touch()
        self.queries = dialects.ClickHouse().queries(parameters)

    def ask(self, query):
        import pyarrow as pa

        answer = self.session.query(query, "ArrowStream").bytes()
        return pa.ipc.open_stream(pa.py_buffer(answer)).read_all()


class DataFusion:
    """The engine that sealcast uses, over the Parquet files."""

    name = "DataFusion on Parquet"

    def __init__(self, data, parameters):
        import datafusion

        self.version = datafusion.__version__
        config = datafusion.SessionConfig().with_target_partitions(os.cpu_count())
        for option in ["pushdown_filters", "reorder_filters"]:
            config = config.set(f"datafusion.execution.parquet.{option}", "true")
        self.context = datafusion.SessionContext(config)
        self.context.register_parquet("events", str(pathlib.Path(data) / "parquet"))
        self.queries = dialects.DataFusion().queries(parameters)

    def ask(self, query):
        return self.context.sql(query).to_arrow_table()


class Polars:
    """Polars over the Parquet files; it has no self-join by an inequality that ends in time."""

    name = "Polars on Parquet"

    def __init__(self, data, parameters):
        import datetime

        import polars as pl

        self.version = pl.__version__
        p, col = parameters, pl.col
        events = pl.scan_parquet(files(data))
        page = [column.strip() for column in p["page"].split(",")]

        def within(span):
            start, end = (datetime.datetime.fromisoformat(text) for text in span)
            return (col("time") >= start) & (col("time") < end)

        def newest(tenant, rest, rows):
            chosen = events.filter((col("tenant") == tenant) & rest).select(page)
            return chosen.top_k(rows, by="time")

        def by_action(tenant):
            chosen = events.filter((col("tenant") == tenant) & within(p["window"]))
            return chosen.group_by("action").agg(pl.len().alias("n"))

        hour = col("time").dt.truncate("1h").alias("hour")
        delay = (col("ingested_at") - col("time")).dt.total_microseconds()
        needle = lambda name: col(name).str.contains(p["needle"], literal=True)
        region = col("attributes").str.json_path_match("$.region") == "ap-south-1"
        id = bytes.fromhex(p["event_id"].replace("-", ""))
        self.queries = {
            "q01": events.filter(col("event_id") == id),
            "q02": newest(p["actor_tenant"], col("actor_id") == p["actor"], 50),
            "q03a": newest(p["hot"], within(p["window"]), 100),
            "q03b": newest(p["middling"], within(p["window"]), 100),
            "q04a": by_action(p["hot"]),
            "q04b": by_action(p["middling"]),
            "q05": events.group_by("tenant").agg(pl.len().alias("n")).top_k(10, by="n"),
            "q06": events.group_by(hour).agg(col("actor_id").n_unique()),
            "q07": events.group_by("action").agg(delay.quantile(0.99)),
            "q08": events.filter(needle("message") | needle("attributes")).select(pl.len()),
            "q09": events.filter(region).select(pl.len()),
            "q10": events.select(pl.len()),
            "q11": events.select(col("time").min().alias("first"), col("time").max().alias("last")),
            "q12": events.group_by(hour, "outcome").agg(pl.len()),
            "q14": events.filter(within(p["export"])),
        }

    def ask(self, query):
        return query.collect().to_arrow()


class Postgres:
    """PostgreSQL of the system, a private instance on a private socket, three indexes."""

    name = "PostgreSQL"
    TIMEOUT_MS = 120_000
    COLUMNS = (
        "event_id uuid, tenant text, time timestamptz, ingested_at timestamptz, action text, "
        "category text, actor_type text, actor_id text, actor_name text, target_type text, "
        "target_id text, targets text, outcome text, outcome_reason text, severity int2, "
        "source_ip text, user_agent text, service text, request_id text, session_id text, "
        "trace_id text, message text, attributes json, _shard int4, _seq int8"
    )
    INDEXES = [
        "create unique index on events (event_id)",
        "create index on events (tenant, time)",
        "create index on events (tenant, actor_id, time)",
    ]

    def __init__(self, data, parameters):
        import psycopg

        binary = shutil.which("postgres") or "/usr/lib/postgresql/15/bin/postgres"
        self.bin = pathlib.Path(binary).resolve().parent
        if not (self.bin / "initdb").exists():
            raise RuntimeError("no postgres and initdb on this machine")
        version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
        self.version = version.stdout.split()[2]
        folder = pathlib.Path(data).resolve() / "peers" / "postgres"
        done = folder.with_suffix(".done")
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
        fresh = not folder.exists()
        self.socket = tempfile.mkdtemp(prefix="sealcast-bench-pg-")
        if fresh:
            folder.mkdir(parents=True)
        self.user = self.unprivileged(folder)
        if fresh:
            self.as_user([self.bin / "initdb", "-D", folder, "-A", "trust", "-E", "UTF8",
                          "--locale=C", "-U", "bench"])
        settings = ["listen_addresses=", f"unix_socket_directories={self.socket}",
                    "shared_buffers=4GB", "work_mem=256MB", "maintenance_work_mem=1GB",
                    "effective_cache_size=12GB", "max_wal_size=8GB", "jit=off",
                    "random_page_cost=1.1", "timezone=UTC"]
        options = [word for setting in settings for word in ("-c", setting)]
        command = self.command([self.bin / "postgres", "-D", folder, *options])
        self.server = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd="/")
        # Also when loading or a query fails: nobody else would stop it.
        self.con = None
        atexit.register(self.close)
        self.con = self.connect(psycopg)
        if not done.exists():
            self.load(data)
            done.touch()
        self.con.execute(f"set statement_timeout = {self.TIMEOUT_MS}")
        self.queries = dialects.Postgres().queries(parameters)

    def unprivileged(self, folder):
        """PostgreSQL refuses root: its folders go to the system's own user for it."""
        if os.getuid() != 0:
            return None
        shutil.chown(folder, "postgres", "postgres")
        shutil.chown(self.socket, "postgres", "postgres")
        # The folders above must let that user through.
        for above in folder.parents:
            if above != pathlib.Path("/") and not above.stat().st_mode & 0o001:
                raise RuntimeError(f"user postgres cannot pass {above}")
        return "postgres"

    def command(self, words):
        words = [str(word) for word in words]
        return ["runuser", "-u", self.user, "--", *words] if self.user else words

    def as_user(self, words):
        subprocess.run(self.command(words), check=True, stdout=subprocess.DEVNULL, cwd="/")

    def connect(self, psycopg):
        import time

        for _ in range(100):
            try:
                return psycopg.connect(host=self.socket, user="bench", dbname="postgres",
                                       autocommit=True)
            except psycopg.OperationalError:
                time.sleep(0.2)
        raise RuntimeError("postgres did not start")

    def load(self, data):
        import duckdb

        self.con.execute(f"create unlogged table events ({self.COLUMNS})")
        duck = duckdb.connect()
        duck.execute("set timezone = 'UTC'")
        for file in sorted(pathlib.Path(data, "parquet").glob("*.parquet")):
            csv = pathlib.Path(data, "peers", "postgres.csv")
            duck.execute(
                f"copy (select * replace (hex(event_id)::uuid as event_id, "
                f"targets::json::text as targets) from '{file}') to '{csv}' (header false)"
            )
            with open(csv, "rb") as rows:
                with self.con.cursor().copy("copy events from stdin (format csv)") as copy:
                    while chunk := rows.read(1 << 20):
                        copy.write(chunk)
            csv.unlink()
        for index in self.INDEXES:
            self.con.execute(index)
        self.con.execute("vacuum analyze events")

    def ask(self, query):
        import pyarrow as pa

        if query == self.queries["q14"]:
            # The fastest way out: COPY, read to its end.
            with self.con.cursor().copy(f"copy ({query}) to stdout (format binary)") as copy:
                for _ in copy:
                    pass
            return None
        cursor = self.con.execute(query)
        names = [column.name for column in cursor.description]
        rows = [[str(v) if n == "event_id" else v for n, v in zip(names, row)] for row in cursor]
        columns = list(zip(*rows)) if rows else [[] for _ in names]
        return pa.table({n: pa.array(list(c)) for n, c in zip(names, columns)})

    def close(self):
        if self.con:
            self.con.close()
        self.server.terminate()
        self.server.wait()
        shutil.rmtree(self.socket, ignore_errors=True)


ALL = {
    "duckdb": DuckNative,
    "duckdb-parquet": DuckParquet,
    "chdb": Chdb,
    "datafusion": DataFusion,
    "polars": Polars,
    "postgres": Postgres,
}
