#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""python.py BUILD [--quick] [--profile] [--json FILE] [--cpu N]: batched reads from Python (reader.py) and from C
(BUILD/examples/nvmfr-perf), in turn, on the embedded target, which moves the data in the reader's own thread, and on
the stand-in for verbs, where a target costs next to nothing. Medians of [min-max]; the ratio is by processor time of
the reading thread, which other work on the machine disturbs least; --profile shows where Python's goes (needs perf).
Run it with a Python that has numpy."""
import argparse
import importlib.util
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
KIB = 1024
MIB = KIB * KIB
STANDIN = "nvmf+rdma://127.0.0.1/nqn.2026-01.null:nullnic"
ROWS = [  # fabric, bytes, depth, reads of a run
    ("embedded", 4 * KIB, 128, 2000000),
    ("embedded", 128 * KIB, 32, 100000),
    ("stand-in", 4 * KIB, 128, 8000000),
    ("stand-in", 128 * KIB, 32, 8000000),
]
WAYS = {"one": "submit_and_wait", "two": "submit, poll"}
TARGET = 0.95  # of C's rate, at 128 KiB
RATE = 1e6  # reads of 4 KiB a second


class Bench:
    def __init__(self, given, file):
        # A file in memory that is there already: to make a target's pages costs more than to read them.
        self.uris = {"embedded": f"nvmf+soft://{file}?ro=1", "stand-in": STANDIN}
        self.build = os.path.abspath(given.build)
        self.share = 4 if given.quick else 1
        self.rounds = 3 if given.quick else 7
        cpus = sorted(os.sched_getaffinity(0))
        self.cpu = given.cpu if given.cpu is not None else cpus[-1]
        self.env = dict(os.environ, PYTHONPATH=os.path.join(TOP, "bindings", "python"),
                        NVMFR_LIBRARY=os.path.join(self.build, "lib", "libnvmfr.so"),
                        LD_LIBRARY_PATH=os.path.join(self.build, "tests", "standin"),
                        OPENBLAS_NUM_THREADS="1")

    def run(self, *command):
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False,
                              preexec_fn=lambda: os.sched_setaffinity(0, {self.cpu}))
        if done.returncode:
            sys.exit(f"python.py: {' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def python(self, fabric, io_bytes, depth, count, way):
        return [sys.executable, os.path.join(HERE, "reader.py"), self.uris[fabric], str(io_bytes), str(depth),
                str(count), way]

    def measure(self, fabric, io_bytes, depth, count):
        """{"C": runs, "one": runs, ...}, in turn."""
        runs = {"C": [], **{way: [] for way in WAYS}}
        perf = [os.path.join(self.build, "examples", "nvmfr-perf"), "-j", "-L", "off", "-q", str(depth), "-o",
                str(io_bytes), "-n", str(count), "-r", self.uris[fabric]]
        for _ in range(self.rounds):
            runs["C"].append(json.loads(self.run(*perf)))
            for way in WAYS:
                runs[way].append(json.loads(self.run(*self.python(fabric, io_bytes, depth, count, way))))
        return runs

    def profile(self, fabric, io_bytes, depth, count):
        """Shares of the whole process by shared object, start included."""
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "data")
            self.run("perf", "record", "-q", "-o", data, *self.python(fabric, io_bytes, depth, 4 * count, "one"))
            text = self.run("perf", "report", "-i", data, "--stdio", "--sort", "dso")
        return {name: float(share) for share, name in re.findall(r"^\s+([\d.]+)%\s+(\S+)", text, re.MULTILINE)[:8]}


def spread(values, form):
    return f"{form(statistics.median(values))} [{form(min(values))}-{form(max(values))}]"


def row(fabric, io_bytes, depth, runs):
    """Prints what was measured of one row. Returns it as values."""
    out = {"fabric": fabric, "io_bytes": io_bytes, "depth": depth, "runs": runs, "ratio": {}, "ratio_iops": {}}
    for who, all_runs in runs.items():
        cpu, iops = ([run[key] for run in all_runs] for key in ("cpu_us_per_io", "iops"))
        pairs = list(zip(runs["C"], all_runs))
        out["ratio"][who] = statistics.median(c["cpu_us_per_io"] / p["cpu_us_per_io"] for c, p in pairs)
        out["ratio_iops"][who] = statistics.median(p["iops"] / c["iops"] for c, p in pairs)
        print(f"{fabric:9} {io_bytes // KIB:4} KiB  QD {depth:<4} {'C, nvmfr-perf' if who == 'C' else 'Python, ' + WAYS[who]:24}"
              f" {spread(cpu, lambda us: f'{us * 1000:.1f}'):26} {spread(iops, lambda n: f'{n / 1e6:.3f}'):22}"
              f" {out['ratio'][who]:5.2f}  {out['ratio_iops'][who]:5.2f}", flush=True)
    return out


def verdicts(rows):
    """The issue's two, by what was measured."""
    for wanted in rows:
        best = wanted["ratio"]["one"]
        if wanted["io_bytes"] == 128 * KIB:
            print(f"{wanted['fabric']}: 128 KiB at {best:.2f} of C's rate a second of processor, "
                  f"{'met' if best >= TARGET else 'not met'} ({TARGET})")
        else:
            rate = statistics.median(run["iops"] for run in wanted["runs"]["one"])
            c_rate = statistics.median(run["iops"] for run in wanted["runs"]["C"])
            print(f"{wanted['fabric']}: {rate / 1e6:.2f} million 4 KiB reads a second, C {c_rate / 1e6:.2f}, "
                  f"{'met' if rate >= RATE else 'not met'} ({RATE / 1e6:.0f})")


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--cpu", type=int)
    given = parser.parse_args()
    if not importlib.util.find_spec("numpy"):
        parser.error(f"{sys.executable} has no numpy: run this with one that has (Debian: /usr/bin/python3)")
    if given.profile and not shutil.which("perf"):
        parser.error("there is no perf for --profile")
    return given


def measure_all(given, bench):
    rows = []
    print(f"load {os.getloadavg()[0]:.1f}, {bench.rounds} rounds in turn, processor {bench.cpu}")
    print(f"{'':51} {'ns of processor an I/O':26} {'million a second':22} ratio  of rates")
    for fabric, io_bytes, depth, count in ROWS:
        if fabric == "stand-in" and not os.path.exists(os.path.join(bench.build, "tests", "standin")):
            continue
        count //= bench.share
        rows.append(row(fabric, io_bytes, depth, bench.measure(fabric, io_bytes, depth, count)))
        if given.profile:
            rows[-1]["profile"] = bench.profile(fabric, io_bytes, depth, count)
            print("          " + ", ".join(f"{name} {share:.0f} %" for name, share in rows[-1]["profile"].items()))
    verdicts(rows)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"load": os.getloadavg()[0], "rows": rows}, file, indent=1)
            file.write("\n")


def main():
    given = options()
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        for _ in range(64):
            file.write(os.urandom(MIB))
        file.flush()
        measure_all(given, Bench(given, file.name))


if __name__ == "__main__":
    main()
