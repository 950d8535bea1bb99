"""The sixteen queries in the dialects of SQL databases, from the parameters that sealcast lists."""


class Dialect:
    """What differs between databases; the shape of every query is the same."""

    def id(self, p):
        return f"event_id = '{p['event_id']}'"

    def time(self, text):
        return f"'{text}'"

    def hour(self):
        return "date_trunc('hour', time)"

    def distinct(self):
        return "count(distinct actor_id)"

    def p99(self):
        return (
            "approx_percentile_cont(0.99) within group "
            "(order by cast(ingested_at as bigint) - cast(time as bigint))"
        )

    def region(self):
        return "attributes ->> 'region' = 'ap-south-1'"

    def attributes_text(self):
        return "attributes"

    def minutes(self):
        return "interval '5 minutes'"

    def within(self, column, span):
        return f"{column} >= {self.time(span[0])} and {column} < {self.time(span[1])}"

    def queries(self, p):
        """Name → SQL."""
        window = self.within("time", p["window"])
        newest = f"select {p['page']} from events where tenant = '{{}}' and {{}} order by time desc limit {{}}"
        by_action = f"select action, count(*) as n from events where tenant = '{{}}' and {window} group by action"
        like = f"like '%{p['needle']}%'"
        return {
            "q01": f"select * from events where {self.id(p)}",
            "q02": newest.format(p["actor_tenant"], f"actor_id = '{p['actor']}'", 50),
            "q03a": newest.format(p["hot"], window, 100),
            "q03b": newest.format(p["middling"], window, 100),
            "q04a": by_action.format(p["hot"]),
            "q04b": by_action.format(p["middling"]),
            "q05": "select tenant, count(*) as n from events group by tenant order by n desc limit 10",
            "q06": f"select {self.hour()} as hour, {self.distinct()} as n from events group by 1",
            "q07": f"select action, {self.p99()} as p99 from events group by action",
            "q08": f"select count(*) as n from events where message {like} or {self.attributes_text()} {like}",
            "q09": f"select count(*) as n from events where {self.region()}",
            "q10": "select count(*) as n from events",
            "q11": "select min(time) as first, max(time) as last from events",
            "q12": f"select {self.hour()} as hour, outcome, count(*) as n from events group by 1, 2",
            "q13": "select count(*) as n from events a join events b "
            "on a.tenant = b.tenant and a.actor_id = b.actor_id "
            f"and b.time > a.time and b.time <= a.time + {self.minutes()} "
            "where a.outcome = 'denied' and b.outcome = 'success' "
            f"and {self.within('a.time', p['day'])} and {self.within('b.time', p['day'])}",
            "q14": f"select * from events where {self.within('time', p['export'])}",
        }


class DuckNative(Dialect):
    def p99(self):
        return "approx_quantile(epoch_us(ingested_at) - epoch_us(time), 0.99)"

    def region(self):
        return "attributes ->> '$.region' = 'ap-south-1'"


class DuckParquet(DuckNative):
    def id(self, p):
        return f"event_id = from_hex('{p['event_id'].replace('-', '')}')"


class DataFusion(Dialect):
    def id(self, p):
        return f"event_id = arrow_cast(X'{p['event_id'].replace('-', '')}', 'FixedSizeBinary(16)')"

    def region(self):
        # The Python package has no JSON functions; a search of the text is less work.
        return "attributes like '%\"region\":\"ap-south-1\"%'"


class ClickHouse(Dialect):
    def id(self, p):
        return f"event_id = unhex('{p['event_id'].replace('-', '')}')"

    def time(self, text):
        return f"parseDateTime64BestEffort('{text}', 6, 'UTC')"

    def hour(self):
        return "toStartOfHour(time)"

    def distinct(self):
        return "uniqExact(actor_id)"

    def p99(self):
        return "quantileTDigest(0.99)(toUnixTimestamp64Micro(ingested_at) - toUnixTimestamp64Micro(time))"

    def region(self):
        return "JSONExtractString(attributes, 'region') = 'ap-south-1'"

    def minutes(self):
        return "interval 5 minute"


class Postgres(Dialect):
    def p99(self):
        return (
            "percentile_disc(0.99) within group "
            "(order by extract(epoch from ingested_at - time) * 1000000)"
        )

    def attributes_text(self):
        return "attributes::text"
