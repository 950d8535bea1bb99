"""Runs the sixteen queries by sealcast and by other databases over the same rows, in one run:
compares the answers, then prints the times, their quotients and the verdicts."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import answers
import engines
import study

HERE = pathlib.Path(__file__).parent


def say(text):
    print(text, file=sys.stderr, flush=True)


def sealcast(args, *words, capture=False):
    command = [args.sealcast, "bench", *map(str, words)]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
    if not capture:
        say(done.stdout)
    return done.stdout


def ours(args, listing, folder):
    """Our times by query, and our answers."""
    import pyarrow as pa

    report = folder / "query.json"
    only = ["--only", args.only] if args.only else []
    sealcast(args, "query", "--data", args.data, "--runs", args.runs, "--json", report,
             "--answers", folder, *only)
    document = json.loads(report.read_text())
    figures = {figure["name"]: figure["value"] for figure in document["figures"]}
    found = {}
    for query in listing["queries"]:
        name = query["name"]
        with pa.OSFile(str(folder / f"{name}.arrow")) as file:
            table = pa.ipc.open_stream(file).read_all()
        times = {f"{via}_{which}": figures[f"{name} {via} {which}"]
                 for via in ("process", "http") for which in ("min", "median")}
        found[name] = {"times": times, "answer": answers.normal(name, table)}
    return found, document


def peer(args, key, list_file):
    """One database's answers; None if it is not there."""
    command = [sys.executable, HERE / "one.py", key, "--data", args.data, "--list", list_file,
               "--runs", str(args.runs)]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        say(f"{key} could not be measured")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def different(found, peers):
    """Every answer that is not ours."""
    return [
        f"{name}: {peer['name']} answers {str(result['answer'])[:200]}, "
        f"sealcast {str(mine['answer'])[:200]}"
        for name, mine in found.items()
        for peer in peers
        if (result := peer["results"].get(name)) and "answer" in result
        and not answers.same(name, mine["answer"], result["answer"])
    ]


def short(value):
    if value is None:
        return "–"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def best(peer, name):
    result = peer["results"].get(name, {})
    return min(result["ms"]) if result.get("ms") else None


def table(listing, found, peers):
    """Markdown that fits a terminal and docs/performance.md; missed queries; how many were judged."""
    duckdb = next((peer for peer in peers if peer["name"] == engines.DuckNative.name), None)
    head = ["query", "sealcast, in process", "through HTTP"]
    head += [f"{peer['name']} {peer['version']}" for peer in peers]
    head += ["sealcast / DuckDB native", "allowed", "verdict"]
    lines, missed, judged = [head], [], 0
    for query in listing["queries"]:
        name = query["name"]
        mine = found[name]["times"]
        line = [f"{name} {query['what']}", short(mine["process_min"]), short(mine["http_min"])]
        line += [short(best(peer, name)) for peer in peers]
        theirs = best(duckdb, name) if duckdb else None
        if theirs:
            judged += 1
            quotient, limit = mine["process_min"] / theirs, study.allowed(name)
            met = quotient <= limit
            if not met:
                missed.append(name)
            line += [short(quotient), short(limit), "met" if met else f"missed, {quotient / limit:.1f} ×"]
        else:
            line += ["–", "–", "–"]
        lines.append(line)
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    return ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths)) + " |" for line in lines], missed, judged


def main():
    parser = argparse.ArgumentParser(prog="bench-peers", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--data", type=pathlib.Path, help="data set, built if absent [default: bench-data/ROWS]")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", help="queries, such as q05,q12")
    parser.add_argument("--skip", default="", help=f"databases to leave out, of {','.join(engines.ALL)}")
    parser.add_argument("--peers", default=",".join(engines.ALL), help="databases to measure")
    parser.add_argument("--sealcast", required=True, help="the binary")
    parser.add_argument("--json", type=pathlib.Path, help="write everything here, too")
    args = parser.parse_args()
    args.data = args.data or pathlib.Path("bench-data") / str(args.rows)
    skip = [key for key in args.skip.split(",") if key]
    chosen = [key for key in args.peers.split(",") if key not in skip]
    for key in skip + chosen:
        if key not in engines.ALL:
            parser.error(f"{key} is unknown: expected some of {','.join(engines.ALL)}")
    if not (args.data / "bench.json").exists():
        sealcast(args, "data", "--rows", args.rows, "--seed", args.seed, "--out", args.data)
    only = ["--only", args.only] if args.only else []
    list_text = sealcast(args, "query", "--data", args.data, "--list", *only, capture=True)
    listing = json.loads(list_text)
    with tempfile.TemporaryDirectory(prefix="sealcast-bench-") as folder:
        folder = pathlib.Path(folder)
        list_file = folder / "list.json"
        list_file.write_text(list_text)
        say("sealcast")
        found, document = ours(args, listing, folder)
        peers = []
        for key in chosen:
            say(engines.ALL[key].name)
            if (measured := peer(args, key, list_file)) is not None:
                peers.append(measured)
    finish(args, listing, found, peers, document)


def finish(args, listing, found, peers, document):
    wrong = different(found, peers)
    for line in wrong:
        print(f"DIFFERENT {line}")
    for other in peers:
        for name, result in other["results"].items():
            if "error" in result:
                print(f"NO ANSWER {name}: {other['name']}: {result['error']}")
    lines, missed, judged = table(listing, found, peers)
    print(f"\n{listing['rows']:,} rows; milliseconds, hot, best of {args.runs} runs after two")
    print(f"{document['machine']['cores']} × {document['machine']['cpu']}, "
          f"{document['machine']['memory_gib']} GiB, load {document['machine']['load']}")
    print(f"{document['binary']}\n")
    print("\n".join(lines))
    if listing["rows"] != 20_000_000:
        print("\nThe allowed quotients are of 20,000,000 rows: at another size they are a hint.")
    verdict = ", ".join(missed) or "none" if judged else "not judged without DuckDB native"
    print(f"missed: {verdict}; judged: {judged} of {len(found)}; answers that differ: {len(wrong)}")
    if args.json:
        for other in peers:
            for result in other["results"].values():
                result.pop("answer", None)
        times = {name: entry["times"] for name, entry in found.items()}
        args.json.write_text(json.dumps({"rows": listing["rows"], "sealcast": times,
                                         "peers": peers, "ran_on": document}, indent=1))
    sys.exit(1 if wrong else 0)


main()
