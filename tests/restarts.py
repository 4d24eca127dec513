#!/usr/bin/env python3
"""Runs that lose processes: what is stored in the end has the bytes of an undisturbed run.

Usage: restarts.py BUILD [--runs N] [--seed S] [--first I] [--out FILE]
Without --runs: a few runs, one of each kind of failure. With it N runs by turns of kinds, data sets, numbers of ranks, engines and
launchers: the first half at chosen moments, the rest at random ones. --first skips runs, so that a long series can be
done in parts. Each line names the run, the models' equality, and the seconds from the failure to the start of the first
step after the lost one.
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

KINDS = ["one rank", "all ranks", "supervisor", "in a checkpoint", "full disk", "stopped rank"]
AUTOMATIC = ["one rank", "all ranks", "in a checkpoint", "stopped rank"]
SAVE_EVERY = 5  # seconds
UNDISTURBED = 8  # seconds that an undisturbed run is to take
MOST_SECONDS = 8  # from the failure to the start of the first step after the lost one
SHARE_IN_TIME = 0.95
BATCH = 64


def images(folder, seed, count, name):
    """Blobs of ten classes in the binary format of CIFAR-10."""
    draw = random.Random(seed)
    with open(folder / name, "wb") as out:
        for i in range(count):
            label = draw.randrange(10)
            record = bytearray([label]) + bytearray(draw.randbytes(3072))
            for channel in range(3):
                for row in range(3 * label, 3 * label + 4):
                    start = 1 + 1024 * channel + 32 * (row % 32)
                    record[start : start + 32] = bytes([255 - 20 * label] * 32)
            out.write(record)


class Steps:
    """The count of steps that rank 0 keeps in memory: the supervisor's, or one of ours for another launcher."""

    def __init__(self, path=None):
        self.file = os.open(path, os.O_RDWR) if path else os.memfd_create("freight-steps")
        if not path:
            os.ftruncate(self.file, 8)

    @staticmethod
    def of(pid):
        for _ in range(2000):
            for fd in listed(f"/proc/{pid}/fd"):
                try:
                    if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/memfd:freight-steps"):
                        return Steps(f"/proc/{pid}/fd/{fd}")
                except OSError:
                    pass
            time.sleep(0.005)
        raise RuntimeError("the supervisor counts no steps")

    def read(self):
        return struct.unpack("q", os.pread(self.file, 8, 0))[0]

    def close(self):
        os.close(self.file)


def listed(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def ranks_of(parent):
    """Process numbers by rank."""
    found = {}
    for name in listed("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = pathlib.Path(f"/proc/{name}/stat").read_text()
            if int(stat.rsplit(")", 1)[1].split()[1]) != parent or ") Z " in stat:
                continue
            for setting in pathlib.Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                if setting.startswith((b"FREIGHT_RANK=", b"RANK=")):
                    found[int(setting.split(b"=")[1])] = int(name)
        except (OSError, ValueError, IndexError):
            pass
    return found


def lives(pid):
    try:
        return ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Launched:
    """Starts ranks as torchrun does: where one fails it ends the others and starts all again."""

    def __init__(self, words, world, log, restarts=5):
        self.words, self.world, self.log, self.restarts = words, world, log, restarts
        self.steps = Steps()
        self.pid = os.getpid()
        self.start()

    def start(self):
        self.port = 20000 + random.SystemRandom().randrange(10000)
        self.ranks = []
        for rank in range(self.world):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(self.world), LOCAL_RANK=str(rank),
                               LOCAL_WORLD_SIZE=str(self.world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port),
                               FREIGHT_TOKEN="the secret of these tests", OMP_NUM_THREADS="1",
                               FREIGHT_STEPS=str(self.steps.file))
            self.ranks.append(subprocess.Popen(self.words, env=environment, stdout=self.log, stderr=self.log,
                                               pass_fds=[self.steps.file]))

    def poll(self):
        """The exit code once the job is over; ends and starts processes meanwhile."""
        codes = [r.poll() for r in self.ranks]
        if all(c == 0 for c in codes):
            return 0
        if not any(c not in (None, 0) for c in codes):
            return None
        for r in self.ranks:
            if r.poll() is None:
                r.terminate()
        for r in self.ranks:
            try:
                r.wait(10)
            except subprocess.TimeoutExpired:
                r.kill()
                r.wait()
        lost = any(r.returncode == 7 or r.returncode < 0 for r in self.ranks)
        if not lost or self.restarts == 0:
            return max(abs(r.returncode) for r in self.ranks)
        self.restarts -= 1
        self.start()
        return None

    def processes(self):
        return {i: r.pid for i, r in enumerate(self.ranks) if r.poll() is None}

    def end(self):
        for r in self.ranks:
            r.kill()
            r.wait()


class Supervised:
    def __init__(self, words, log):
        self.process = subprocess.Popen(words, stdout=log, stderr=log)
        self.pid = self.process.pid
        self.steps = Steps.of(self.pid)

    def poll(self):
        return self.process.poll()

    def processes(self):
        return ranks_of(self.pid)

    def end(self):
        self.process.kill()
        self.process.wait()


class Disk:
    """A small file system of its own; None where this user may mount none."""

    @staticmethod
    def made(path, megabytes):
        path.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(path)],
                              capture_output=True, check=False)
        return Disk(path) if made.returncode == 0 else None

    def __init__(self, path):
        self.path = path

    def fill(self):
        block = bytes(1 << 16)
        with open(self.path / "filler", "wb", buffering=0) as out:
            try:
                while True:
                    out.write(block)
            except OSError:
                pass

    def free(self):
        (self.path / "filler").unlink()

    def end(self):
        subprocess.run(["umount", "-l", str(self.path)], check=False)


class Bench:
    def __init__(self, build, folder, save_every):
        self.freight = str(pathlib.Path(build) / "bin/freight")
        self.folder = folder
        self.save_every = save_every
        (folder / "cifar").mkdir()
        for part in range(1, 6):
            images(folder / "cifar", part, 512, f"data_batch_{part}.bin")
        images(folder / "cifar", 6, 256, "test_batch.bin")
        (folder / "cifar/batches.meta.txt").write_text("\n".join(f"class{i}" for i in range(10)) + "\n")
        self.models = {}
        self.lengths = {}

    def words(self, data, run, steps, more):
        name = "digits" if data == "digits" else str(self.folder / "cifar")
        return [self.freight, "train", name, "--model", "convnet", "-b", str(BATCH), "--epochs", "0", "--max-steps", str(steps),
                "--optimizer", "adamw", "--lr", "0.001", "--model-ema", "0.99", "-q",
                "--save-every", f"{self.save_every}s", "-o", str(run)] + more

    def undisturbed(self, data):
        """The model that all runs on this data must store, and the steps of a run."""
        if data not in self.models:
            run = self.folder / f"probe-{data}"
            begin = time.monotonic()
            subprocess.run(self.words(data, run, 8, ["--shards", "8", "--devices", "1"]), check=True, capture_output=True)
            start = time.monotonic() - begin
            begin = time.monotonic()
            run = self.folder / f"probe2-{data}"
            subprocess.run(self.words(data, run, 48, ["--shards", "8", "--devices", "1"]), check=True, capture_output=True)
            step = max((time.monotonic() - begin - start) / 40, 1e-4)
            steps = max(int(UNDISTURBED / step), 48)
            run = self.folder / f"undisturbed-{data}"
            begin = time.monotonic()
            subprocess.run(self.words(data, run, steps, ["--shards", "8", "--devices", "2"]), check=True, capture_output=True)
            self.lengths[data] = steps
            self.models[data] = (run / "model.safetensors").read_bytes()
            print(f"{data}: {steps} steps, undisturbed on 2 ranks {time.monotonic() - begin:.1f} s", flush=True)
        return self.models[data], self.lengths[data]

    def wait_for_moment(self, job, run, share, steps, kind):
        if kind == "in a checkpoint":
            folder = run / "checkpoints"
            seen = time.monotonic()
            while job.poll() is None and time.monotonic() - seen < 60:
                if job.steps.read() >= share * steps * 0.3 and any(n.endswith(".new") for n in listed(folder)):
                    return True
                time.sleep(0.0003)
            return False
        while job.poll() is None:
            if job.steps.read() >= max(1, int(share * steps)):
                return True
            time.sleep(0.002)
        return False

    def await_step_after(self, job, old, begin):
        """Seconds until the step after the lost one begins; the processes `old` are gone before."""
        while any(lives(p) for p in old) and time.monotonic() - begin < 120:
            job.poll()
            time.sleep(0.002)
        lost = job.steps.read() + 1
        while job.steps.read() < lost:
            if job.poll() is not None:
                return None  # there is no step after it
            if time.monotonic() - begin > 120:
                raise RuntimeError("the job does not go on")
            time.sleep(0.002)
        return time.monotonic() - begin

    def run(self, number, kind, data, world, engine, launcher, share):
        model, steps = self.undisturbed(data)
        parent = self.folder / f"run-{number}"
        disk = Disk.made(parent, 96) if kind == "full disk" else None
        parent.mkdir(exist_ok=True)
        if kind == "full disk" and not disk:
            return "skipped: no file system can be mounted here", None
        run = parent / "run"
        if launcher == "supervisor":
            more = ["--devices", f"cpu*{world}", "--elastic", f"1:{world}", "--comm", engine]
            start = lambda log: Supervised(self.words(data, run, steps, more), log)
        else:
            more = ["--resume", "auto", "--shards", "8", "--comm", engine]
            start = lambda log: Launched(self.words(data, run, steps, more), world, log)
        seconds = None
        with open(parent.with_suffix(".log"), "wb") as log:
            job = start(log)
            try:
                hit = self.wait_for_moment(job, run, share, steps, kind)
                ranks = job.processes()
                begin = time.monotonic()
                if not hit:
                    pass
                elif kind == "full disk":
                    disk.fill()
                    code = finished(job)
                    disk.free()
                    if code == 0 and job.steps.read() < steps:
                        return "the full disk was not noticed", None
                    job = start(log)
                elif kind == "supervisor":
                    if launcher == "supervisor":
                        kill(job.pid)
                        job.process.wait()
                    else:
                        job.end()
                    while any(lives(p) for p in ranks.values()):
                        time.sleep(0.01)
                    job = start(log)
                else:
                    victims = {"one rank": [number % max(len(ranks), 1)], "stopped rank": [(number + 1) % max(len(ranks), 1)],
                               "all ranks": list(ranks), "in a checkpoint": [0]}[kind]
                    for victim in victims:
                        if victim in ranks:
                            kill(ranks[victim], signal.SIGSTOP if kind == "stopped rank" else signal.SIGKILL)
                    seconds = self.await_step_after(job, list(ranks.values()), begin)
                code = finished(job)
            finally:
                job.end()
                made = (run / "model.safetensors").read_bytes() if (run / "model.safetensors").exists() else b""
                if disk:
                    disk.end()
        if code != 0:
            return f"exit code {code}: {parent.with_suffix('.log')}", None
        if made != model:
            return "ANOTHER MODEL", None
        if not hit:
            return "equal (over before the moment)", None
        shutil.rmtree(parent, ignore_errors=True)
        return "equal", seconds


def finished(job):
    begin = time.monotonic()
    while (code := job.poll()) is None:
        if time.monotonic() - begin > 180:
            return "none after 180 s"
        time.sleep(0.01)
    return code


def plan(count, seed):
    """The runs by number: kinds, data, ranks, engines and launchers by turns, in an order that is the same each time."""
    draw = random.Random(seed)
    chosen = [0.02, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 0.99]
    runs = []
    for i in range(count):
        kind = KINDS[i % 5]  # a stopped rank is no kind of the long series: it costs 5 s before it is killed
        world = 1 + (i // 5) % 4
        engine = "shared" if (i // 2) % 2 == 0 else "gloo"
        launcher = "torchrun-like" if i % 3 == 2 and kind != "full disk" else "supervisor"
        data = "digits" if (i // 3) % 2 == 0 else "cifar"
        share = chosen[(i // 5) % len(chosen)] if i < count // 2 else draw.uniform(0.02, 0.98)
        runs.append((kind, data, world, engine, launcher, share))
    return runs


SHORT = [("one rank", "digits", 2, "shared", "supervisor", 0.5), ("in a checkpoint", "digits", 2, "gloo", "supervisor", 0.3),
         ("supervisor", "digits", 2, "shared", "supervisor", 0.5), ("all ranks", "digits", 2, "shared", "torchrun-like", 0.5),
         ("full disk", "digits", 1, "shared", "supervisor", 0.3), ("stopped rank", "digits", 2, "shared", "supervisor", 0.3)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=0, help="run up to this number of the series; 0: its end")
    parser.add_argument("--out")
    args = parser.parse_args()
    short = args.runs == 0
    global UNDISTURBED
    if short:
        UNDISTURBED = 2
    runs = SHORT if short else plan(args.runs, args.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="freight-restarts-", dir=os.environ.get("TMPDIR")))
    bench = Bench(args.build, folder, 1 if short else SAVE_EVERY)
    out = open(args.out, "a", encoding="utf-8") if args.out else None
    equal, times, bad = 0, [], []
    last = args.last or len(runs)
    try:
        for number, of_run in list(enumerate(runs))[args.first : last]:
            said, seconds = bench.run(number, *of_run)
            kind, data, world, engine, launcher, share = of_run
            line = (f"{number:3} {kind:15} {data:6} {world} {'rank ' if world == 1 else 'ranks'} {engine:6} {launcher:13} at {100 * share:3.0f} %: "
                    f"{said}{f', {seconds:.2f} s' if seconds is not None else ''}")
            print(line, flush=True)
            if out:
                out.write(line + "\n")
                out.flush()
            if said.startswith(("equal", "skipped")):
                equal += said.startswith("equal")
            else:
                bad.append(line)
            # A rank that is stopped is killed after 5 s, which do not count as the restart's.
            if seconds is not None and kind in AUTOMATIC:
                times.append(seconds - 5 if kind == "stopped rank" else seconds)
    finally:
        if not bad:
            shutil.rmtree(folder, ignore_errors=True)
    times.sort()
    in_time = sum(t <= MOST_SECONDS for t in times)
    summary = f"{equal} of {last - args.first} models equal"
    if times:
        summary += (f"; from the failure to the first step after the lost one: median {times[len(times) // 2]:.2f} s, most {times[-1]:.2f} s, "
                    f"{in_time} of {len(times)} within {MOST_SECONDS} s")
    print(summary)
    if out:
        out.write(summary + "\n")
    if bad or in_time < SHARE_IN_TIME * len(times):
        sys.exit(f"{len(bad)} runs failed" if bad else "restarts take too long")


main()
