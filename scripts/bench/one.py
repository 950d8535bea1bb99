"""Measures one database in a process of its own; prints JSON on the last line."""

import argparse
import json
import sys
import time
import warnings

import answers
import engines


def measure(engine, name, runs, warming):
    """Milliseconds of each run, and the answer."""
    query, times = engine.queries[name], []
    table = engine.ask(query)
    for run in range(warming - 1 + runs):
        start = time.perf_counter()
        table = engine.ask(query)
        if run >= warming - 1:
            times.append((time.perf_counter() - start) * 1000)
    return times, answers.normal(name, table)


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=engines.ALL)
    parser.add_argument("--data", required=True)
    parser.add_argument("--list", required=True, help="output of `sealcast bench query --list`")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--slow-ms", type=float, default=10_000, help="above it one run is enough")
    args = parser.parse_args()
    with open(args.list) as file:
        listed = json.load(file)
    start = time.perf_counter()
    engine = engines.ALL[args.engine](args.data, listed["parameters"])
    loaded = time.perf_counter() - start
    results = {}
    for query in listed["queries"]:
        name = query["name"]
        if name not in engine.queries:
            continue
        try:
            start = time.perf_counter()
            engine.ask(engine.queries[name])
            once = (time.perf_counter() - start) * 1000
            runs = 1 if once > args.slow_ms else args.runs
            times, answer = measure(engine, name, runs, 1)
            results[name] = {"ms": times, "answer": answer}
        except Exception as error:  # one query that a database cannot do is a gap in its column
            results[name] = {"error": " ".join(str(error).split())[:300]}
        print(f"  {name} done", file=sys.stderr)
    print(json.dumps({"name": engine.name, "version": engine.version, "opened_s": loaded,
                      "results": results}))


main()
