#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""measure.py --programs DIR --standin DIR [--quick] [--json FILE] [--only ROW]... [--cpu N]
Every target of the hot path, as run.sh builds it. Instructions are irio.py's "rest": the library and its lean caller.
Times are medians of alternating runs of lean and rawloop, in processor time: what runs beside them does not count,
but for the caches it takes. ROWs are named in the table's first column."""
import argparse
import datetime
import functools
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
from time import monotonic as time_now

HERE = os.path.dirname(os.path.abspath(__file__))
IRIO = os.path.join(HERE, "..", "standin", "irio.py")
NOISE = 1.05  # of a time that is to be rawloop's own
MIB = 1 << 20
COMMANDS_OF_64_MIB = 64  # the stand-in's MDTS is 1 MiB
LEAN = {  # lean's arguments, row by row; with -G lean-group's
    "qd32": "-q 32 -b 32",
    "qd128": "-q 128 -b 32",
    "single": "-q 32 -b 1",
    "qd1": "-q 1 -b 1",
    "128k": "-q 32 -b 32 -o 131072",
    "icd": "-q 32 -b 32 -w write",
    "icd-mixed": "-q 32 -b 32 -w mixed",
    "vec4": "-q 32 -b 32 -V 4",
    "split": f"-q 1 -b 2 -Q 32 -o {64 * MIB}",
    "split128": f"-q 1 -b 2 -Q 128 -o {64 * MIB}",
    "threads": "-q 32 -b 32 -t 2",
    "group": "-q 32 -b 32 -G 64",
    "group-qd1": "-q 1 -b 1 -G 64",
    "thousand": "-q 8 -b 8 -G 1000",
}
AGAIN = {  # again's: the same reads all the time
    "again": "-q 32",
    "prepared": "-q 32 -p",
}
RAWLOOP = {  # where rawloop does the same; its -b is lean's
    "qd32": LEAN["qd32"],
    "qd128": LEAN["qd128"],
    "single": LEAN["single"],
    "qd1": LEAN["qd1"],
    "128k": "-q 32 -b 32 -l 131072",
    "icd": "-q 32 -b 32 -w",
    "split": f"-q 32 -b 32 -l {MIB}",
    "group": "-q 32 -b 32 -i 63 -S",
    "group-qd1": "-q 1 -b 1 -i 63 -S",
}
LOCK = {"NULLNIC_LOCK": "1"}  # of the stand-in, where the service connects what its owner polls
NOT_AVAILABLE = "not available"


def find(folder, name):
    for sub in "", "lib", "tests/standin":
        path = os.path.join(folder, sub, name)
        if os.path.exists(path):
            return path
    sys.exit(f"measure.py: no {name} in {folder}")


class Bench:
    """Runs programs; what two rows ask for is measured once."""

    def __init__(self, options):
        self.libs = os.path.dirname(find(options.standin, "libibverbs.so.1"))
        self.rawloop = find(options.standin, "rawloop")
        self.programs = options.programs
        self.lean = os.path.join(options.programs, "lean")
        self.rounds = 3 if options.quick else 5
        self.ios = 1000000 if options.quick else 8000000
        self.counted = (2000, 12000) if options.quick else (10000, 60000)
        self.cpus = sorted(os.sched_getaffinity(0))
        self.cpu = options.cpu if options.cpu is not None else self.cpus[-1]

    def start(self, command, cpus=None, **env):
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=dict(os.environ, LD_LIBRARY_PATH=self.libs, **env),
                                preexec_fn=lambda: os.sched_setaffinity(0, cpus or {self.cpu}))

    @staticmethod
    def finish(process):
        out, err = process.communicate()
        if process.returncode:
            sys.exit(f"measure.py: {' '.join(process.args)}: {out}{err}")
        return out

    def output(self, command, cpus=None, **env):
        return self.finish(self.start(command, cpus, **env))

    @functools.lru_cache(maxsize=None)
    def instructions(self, args, program="lean", share=1, **env):
        """Instructions per I/O; with share, per so many commands of one."""
        path = self.rawloop if program == "rawloop" else os.path.join(self.programs, program)
        # How often a group is polled while it connects is chance: more I/Os, to drown it.
        more = 4 if program == "lean-group" else 1
        low, high = (max(2, n * more // share) for n in self.counted)
        out = self.output([IRIO, "-L", self.libs, "-n", f"{low},{high}", "--rest-only", "--",
                           path, *args.split(), "-n", "%N"], **env)
        return round(float(out) / share, 1)

    def seconds(self, command, ios, cpus=None):
        """Processor time of one run, on one processor or a copy on each of several."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        running = [self.start([*command, "-n", str(ios)], where) for where in cpus or [None]]
        for process in running:
            self.finish(process)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    @functools.lru_cache(maxsize=None)
    def overhead(self, command, cpus=None):
        """Of a start, a connect and an end."""
        return min(self.seconds(command, 1, cpus) for _ in range(self.rounds))

    def ns(self, command, ios, cpus=None):
        return (self.seconds(command, ios, cpus) - self.overhead(tuple(command), cpus)) / ios * 1e9

    @functools.lru_cache(maxsize=None)
    def times(self, lean_args, raw_args, share=1):
        """lean and rawloop in turn: nanoseconds of each."""
        lean, raw = [], []
        for _ in range(self.rounds):
            raw.append(self.ns([self.rawloop, *raw_args.split()], self.ios))
            lean.append(self.ns([self.lean, *lean_args.split()], max(2, self.ios // share)) / share)
        return lean, raw


# ---- what a row answers: figure, what it is held against, limit in words, met or not -------------------


def spread(values):
    return f"{statistics.median(values):.1f} [{min(values):.1f}-{max(values):.1f}]"


class Result:
    def __init__(self, target, figure, reference, met, **detail):
        self.target, self.figure, self.reference, self.met, self.detail = target, figure, reference, met, detail


def at_most(figure, limit, target, reference, **detail):
    return Result(target, f"{figure:.1f} Ir", reference, figure <= limit, instructions=figure, limit=limit, **detail)


def price(bench, row, limit):
    raw = bench.instructions(RAWLOOP[row], program="rawloop")
    return at_most(bench.instructions(LEAN[row]), limit, f"at most {limit} Ir", f"rawloop {raw:.1f} Ir", rawloop=raw)


def time(bench, row, share=1):
    lean, raw = bench.times(LEAN[row], RAWLOOP[row], share)
    ratio = statistics.median(lean) / statistics.median(raw)
    return Result(f"at most {NOISE} x rawloop", f"{spread(lean)} ns, {ratio:.2f} x", f"rawloop {spread(raw)} ns",
                  ratio <= NOISE, lean_ns=lean, rawloop_ns=raw, ratio=round(ratio, 3))


def reads(bench):
    return bench.instructions(LEAN["qd32"])


def as_4_kib(bench):
    got, ref = bench.instructions(LEAN["128k"]), reads(bench)
    return Result("as 4 KiB, +-1", f"{got:.1f} Ir", f"4 KiB {ref:.1f} Ir", abs(got - ref) <= 1, instructions=got,
                  four_kib=ref)


def more_than_reads(bench, row, more):
    ref = reads(bench)
    return at_most(bench.instructions(LEAN[row]), ref + more, f"at most {more} Ir more than reads",
                   f"reads {ref:.1f} Ir", reads=ref)


def offer_of_capsules(bench):
    without = bench.instructions(LEAN["qd32"], NULLNIC_ICD="0")
    return at_most(reads(bench) - without, 8, "at most 8 Ir more", f"{without:.1f} Ir without", without=without)


def reads_among_writes(bench):
    """What a read pays more where every other I/O is an in-capsule write, if those pay what they do alone."""
    mixed, write = bench.instructions(LEAN["icd-mixed"]), bench.instructions(LEAN["icd"])
    return at_most(2 * (mixed - reads(bench)) - (write - reads(bench)), 8, "at most 8 Ir more",
                   f"mixed {mixed:.1f}, writes {write:.1f}, reads {reads(bench):.1f} Ir", mixed=mixed)


def child(bench, row):
    got = bench.instructions(LEAN[row], share=COMMANDS_OF_64_MIB)
    return at_most(got, 135, "at most 135 Ir a command", f"4 KiB reads {reads(bench):.1f} Ir")


def thread_lines(bench):
    path = os.path.join(bench.programs, "footprint")
    run = subprocess.run([path, "lines"], env=dict(os.environ, LD_LIBRARY_PATH=bench.libs), capture_output=True,
                         text=True, check=False)
    said = run.stdout.strip().splitlines()[-1] if run.stdout.strip() else run.stderr.strip()
    found = re.match(r"(\d+) lines .* (\d+) for the other, (\d+) for both", said)
    return Result("no line written by both", f"{found.group(3)} lines" if found else said,
                  f"each writes {found.group(1)} and {found.group(2)}" if found else "", run.returncode == 0, said=said)


def thread_price(bench):
    got, ref = bench.instructions(LEAN["threads"]) / 2, reads(bench)
    return Result("as one thread, +-1", f"{got:.1f} Ir", f"one thread {ref:.1f} Ir", abs(got - ref) <= 1,
                  instructions=got, one_thread=ref)


def thread_rate(bench):
    target = "at least 0.9 of what rawloops keep"
    if len(bench.cpus) < 2:
        return Result(target, NOT_AVAILABLE, "one processor", False)
    lean, raw = [bench.lean, *LEAN["qd32"].split()], [bench.rawloop, *RAWLOOP["qd32"].split()]
    each = tuple(frozenset([cpu]) for cpu in bench.cpus[:2])
    both = (frozenset(bench.cpus[:2]),)
    one, two, raw_one, raw_two = [], [], [], []
    for _ in range(bench.rounds):
        raw_one.append(bench.ns(raw, bench.ios))
        one.append(bench.ns(lean, bench.ios))
        raw_two.append(bench.ns(raw, bench.ios, each) / 2)
        two.append(bench.ns([bench.lean, *LEAN["threads"].split()], bench.ios, both) / 2)
    keeps = statistics.median(one) / statistics.median(two)
    raw_keeps = statistics.median(raw_one) / statistics.median(raw_two)
    return Result(target, f"keeps {keeps:.2f}: {keeps / raw_keeps:.2f} of theirs",
                  f"rawloops keep {raw_keeps:.2f}", keeps >= 0.9 * raw_keeps, one_ns=one, two_ns=two,
                  rawloop_one_ns=raw_one, rawloop_two_ns=raw_two)


def embedded(bench):
    rounds = "5" if bench.rounds < 5 else "21"
    out = bench.output([os.path.join(bench.programs, "memcpy-ratio"), "-r", rounds])
    rates = [[float(x) for x in re.findall(r"([\d.]+) GB/s", line)] for line in out.splitlines()[:-1]]
    ours, theirs = zip(*rates)
    ratio = float(out.split()[-1])
    return Result("at least 0.9 of memcpy", f"{spread(ours)} GB/s, {ratio:.2f}", f"memcpy {spread(theirs)} GB/s",
                  ratio >= 0.9, nvmfr_gb_s=ours, memcpy_gb_s=theirs, ratio=ratio)


def prepared(bench):
    """The same program with the same reads, prepared once or submitted each time."""
    got, ref = (bench.instructions(AGAIN[row], program="again") for row in ("prepared", "again"))
    return at_most(got, ref - 1, "cheaper than submitted", f"submitted {ref:.1f} Ir, {ref - got:.1f} more", submitted=ref)


def memory(bench):
    out = bench.output([os.path.join(bench.programs, "footprint"), "memory", "128"])
    got = int(out.split()[0])
    blocks = out.split(":")[1].strip().replace(" ", " + ")
    return Result("at most 48 KiB", f"{got / 1024:.1f} KiB", f"blocks: {blocks}", got <= 48 * 1024, bytes=got)


def group_price(bench, row, alone):
    """64 queue pairs of which one is busy, against that one by itself; the bare loop over one CQ beside it."""
    got, ref = bench.instructions(LEAN[row], program="lean-group", **LOCK), bench.instructions(LEAN[alone])
    raw = bench.instructions(RAWLOOP[row], program="rawloop")
    raw_ref = bench.instructions(RAWLOOP[alone], program="rawloop")
    return at_most(got, 1.25 * ref, f"at most 1.25 x one qpair, {1.25 * ref:.1f} Ir",
                   f"one {ref:.1f} Ir; rawloop {raw:.1f}, one {raw_ref:.1f}", one=ref, rawloop=raw,
                   rawloop_one=raw_ref, times=round(got / ref, 3))


def thousand(bench):
    """Connects, runs on one of them and closes, with 1,024 descriptors."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, limits[1]))
    try:
        begin = time_now()
        program = os.path.join(bench.programs, "lean-group")
        said = bench.output([program, *LEAN["thousand"].split(), "-n", "100000"], **LOCK).strip()
        seconds = time_now() - begin
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    return Result("connect, run, close", f"{seconds:.2f} s, of them I/O {said}", "100,000 I/Os on one", True,
                  seconds=seconds)


def asleep(bench, every_ms):
    """Processor time of a process that sleeps in nvmfr_wait(), over the stand-in and over the embedded target."""
    used, seconds = {}, "2" if bench.rounds < 5 else "5"
    for name, env, uri in ("stand-in", {"NULLNIC_LAT_NS": "100000"}, None), \
                          ("embedded", {}, "nvmf+soft:?size=1M&latency_us=100"):
        command = [os.path.join(bench.programs, "idle"), "-s", seconds, "-m", str(every_ms)]
        used[name] = float(bench.output(command + (["-r", uri] if uri else []), **env).split()[0])
    return Result("below 1 % of a processor", f"{used['stand-in']:.3f} %", f"embedded target {used['embedded']:.3f} %",
                  max(used.values()) < 1, percent=used)


ROWS = {
    "qd32": ("QD 32, batches of 32", lambda b: price(b, "qd32", 135)),
    "qd32-time": ("", lambda b: time(b, "qd32")),
    "qd128": ("QD 128, batches of 32", lambda b: price(b, "qd128", 135)),
    "qd128-time": ("", lambda b: time(b, "qd128")),
    "single": ("QD 32, single submits", lambda b: price(b, "single", 205)),
    "single-time": ("", lambda b: time(b, "single")),
    "qd1": ("QD 1", lambda b: price(b, "qd1", 310)),
    "qd1-time": ("", lambda b: time(b, "qd1")),
    "128k": ("128 KiB reads", as_4_kib),
    "128k-time": ("", lambda b: time(b, "128k")),
    "icd": ("in-capsule 4 KiB writes", lambda b: more_than_reads(b, "icd", 40)),
    "icd-time": ("", lambda b: time(b, "icd")),
    "icd-offer": ("reads where capsules may carry data", offer_of_capsules),
    "icd-mixed": ("reads among in-capsule writes", reads_among_writes),
    "vec4": ("vectored, 4 descriptors", lambda b: more_than_reads(b, "vec4", 60)),
    "split": ("64 MiB read, depth 32", lambda b: child(b, "split")),
    "split128": ("64 MiB read, depth 128", lambda b: child(b, "split128")),
    "split-time": ("64 MiB read, depth 32, a command", lambda b: time(b, "split", COMMANDS_OF_64_MIB)),
    "prepared": ("prepared I/O, QD 32, batches of 32", prepared),
    "group": ("64 qpairs in a group, one busy", lambda b: group_price(b, "group", "qd32")),
    "group-qd1": ("64 in a group, one busy at QD 1", lambda b: group_price(b, "group-qd1", "qd1")),
    "thousand": ("1,000 qpairs, RLIMIT_NOFILE 1024", thousand),
    "memory": ("library memory a qpair, depth 128", memory),
    "threads-lines": ("two threads, a qpair each", thread_lines),
    "threads": ("", thread_price),
    "threads-rate": ("", thread_rate),
    "asleep": ("asleep in nvmfr_wait, 0 I/O", lambda b: asleep(b, 0)),
    "asleep-10": ("asleep, 10 I/O a second", lambda b: asleep(b, 100)),
    "embedded": ("embedded target, 128 KiB reads", embedded),
}


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = re.search(r"model name\s*: (.*)", file.read())
    cc = os.environ.get("CC", "gcc")
    compiler = subprocess.run([*cc.split(), "--version"], capture_output=True, text=True, check=True).stdout
    commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True,
                            check=False).stdout.strip()
    return {"date": datetime.date.today().isoformat(), "cpu": cpu.group(1) if cpu else platform.machine(),
            "processors": os.cpu_count(), "kernel": platform.release(), "compiler": compiler.splitlines()[0],
            "flags": "-O2", "commit": commit, "load": os.getloadavg()[0]}


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--standin", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--only", action="append", choices=ROWS)
    parser.add_argument("--cpu", type=int)
    return parser.parse_args()


def main():
    given = options()
    bench, rows, about = Bench(given), [], machine()
    print(f"{about['date']}, {about['cpu']}, {about['compiler']} {about['flags']}, load {about['load']:.1f}")
    print(f"{'row':13} {'':35} {'target':34} {'figure':34} {'verdict':8} reference, in the same run")
    for name, (title, measure) in ROWS.items():
        if given.only and name not in given.only:
            continue
        got = measure(bench)
        verdict = "met" if got.met else "not met"
        print(f"{name:13} {title:35} {got.target:34} {got.figure:34} {verdict:8} {got.reference}", flush=True)
        rows.append({"row": name, "title": title, "target": got.target, "figure": got.figure,
                     "reference": got.reference, "verdict": verdict, **got.detail})
    missed = [row["row"] for row in rows if row["verdict"] != "met"]
    print(f"{len(rows) - len(missed)} of {len(rows)} met" + (f"; not met: {', '.join(missed)}" if missed else ""))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"machine": about, "rows": rows}, file, indent=1)
            file.write("\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
