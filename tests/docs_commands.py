#!/usr/bin/env python3
"""Whether every command in the documents does what its page says.

usage: tests/docs_commands.py BUILD_DIR [PAGE ...]

A page's blocks are fences whose first word names what they hold:

    ```sh                      each line is run in the page's scratch folder and must exit with 0
    ```sh exit 4               ... with 4
    ```sh not-run: REASON      is not run
    ```json, ```python         must be JSON and Python
    ```text                    behind a block that was run: what it printed. `...` skips, alone on a line any lines, inside a line its rest
    <!-- before: COMMAND -->   is run when the page gets there, without being shown
    <!-- file: NAME -->        the block behind it lies in the folder under this name

Every page has a scratch folder of its own with the sample files of `freight data sample`, which the README has to ask for itself; the
built-in datasets are there, small, in their own formats; and `freight` and `./freight`
are the command of the build. A line that begins `freight serve` is started on a free port, which takes the place of 8000 in the curl
lines behind it, and is stopped at the next such line or at the page's end. Numbers and the name of the machine are not compared. A block
of four spaces, a fence without a word, and a page or source that is named but not there are failures.
"""
import functools
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LANGUAGES = {"sh", "text", "json", "cpp", "python", "graph"}
# How often a run says where it stands depends on the clock.
PROGRESS = re.compile(r"epoch \d+/\d+  \d+/\d+ ")
# What docs/README.md asks for before the commands of a page are tried.
SAMPLE_COMMANDS = ["freight data sample all", "freight models show convnet --num-classes 3 --spec | sed s/1,28,28/3,32,32/ > my_net.json"]
WORDS = "a the film was good bad dull joy bore plain story of sound people music never again".split()


def pages():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@functools.cache
def sources():
    return [str(p) for top in ("src", "apps", "tests", "tools", "cmake", "bench", "examples") for p in (ROOT / top).rglob("*") if p.is_file()]


# ---- what a page says -----------------------------------------------------------------------------------------------

def blocks(path):
    """(line, info string, lines) of every fence, `before` for hidden commands; and the faults of form."""
    found, faults, lines, at = [], [], path.read_text().split("\n"), 0
    while at < len(lines):
        line, begin = lines[at], at + 1
        if line.startswith("```"):
            end = at + 1
            while end < len(lines) and lines[end] != "```":
                end += 1
            info = line[3:]
            if not info or info.split()[0] not in LANGUAGES:
                faults.append(f"{begin}: a fence needs one of {', '.join(sorted(LANGUAGES))} in its first line: got '{line}'")
            if end == len(lines):
                faults.append(f"{begin}: this fence is never closed")
            found.append((begin, info, lines[at + 1:end]))
            faults += [f"{begin}: {e}" for e in not_parsed(info, "\n".join(lines[at + 1:end]))]
            at = end
        elif line.startswith("<!-- before: "):
            found.append((begin, "before", [line[len("<!-- before: "):].removesuffix("-->").strip()]))
        elif line.startswith("<!-- file: "):
            found.append((begin, "file", [line[len("<!-- file: "):].removesuffix("-->").strip()]))
        elif line.startswith("    ") and (at == 0 or not lines[at - 1]):
            faults.append(f"{begin}: a block of four spaces: make it a fence that says what it holds")
        elif line:
            found.append((begin, "prose", []))
        for mention in re.findall(r"`([\w./-]+\.md)`|\]\(([\w./-]+\.md)[#)]", line):
            name = mention[0] or mention[1]
            if not any((folder / name).exists() for folder in (path.parent, ROOT / "docs", ROOT)):
                faults.append(f"{begin}: there is no {name}")
        for name in re.findall(r"`([a-z0-9_./-]+\.(?:h|cpp|inc|py|cmake))[ `]", line):
            if not any(f"/{file}".endswith(f"/{name}") for file in sources()):
                faults.append(f"{begin}: there is no source {name}")
        at += 1
    return found, faults


def not_parsed(language, content):
    """What is wrong with a block that is told to be JSON (one document or several) or Python."""
    try:
        if language == "json":
            while content.strip():
                content = content.lstrip()
                content = content[json.JSONDecoder().raw_decode(content)[1]:]
        elif language == "python":
            compile(content, "block", "exec")
    except (ValueError, SyntaxError) as e:
        return [f"not {language}: {e}"]
    return []


def commands(lines):
    """The lines of a block, those that end in a backslash joined with the next one, without blank lines and comments."""
    joined, out = "", []
    for line in lines:
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        if joined.strip() and not joined.lstrip().startswith("#"):
            out.append(joined)
        joined = ""
    return out


# ---- the data of a scratch folder -----------------------------------------------------------------------------------

def png(path, side, rng):
    """A colour picture that no filter compresses."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + rng.randbytes(3 * side) for _ in range(side))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def idx(folder, train, test, rng):
    folder.mkdir(parents=True)
    for part, count in (("train", train), ("t10k", test)):
        pictures = struct.pack(">IIII", 0x803, count, 28, 28) + rng.randbytes(count * 784)
        labels = struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(pictures, 1))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels, 1))


def text(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(4, 12)))


def named_sets(folder):
    """The sets that a command may name, small, in the files that their publishers give."""
    rng = random.Random(1)
    idx(folder / "mnist", 256, 64, rng)
    idx(folder / "fashion-mnist", 256, 64, rng)
    cifar = folder / "cifar-10-batches-bin"
    cifar.mkdir()
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        cifar.joinpath(name).write_bytes(b"".join(bytes([i % 10]) + rng.randbytes(3072) for i in range(20)))
    sst = folder / "sst2"
    sst.mkdir()
    for name in ("train.tsv", "dev.tsv"):
        sst.joinpath(name).write_text("sentence\tlabel\n" + "".join(f"{text(rng)}\t{i % 2}\n" for i in range(200)))
    news = folder / "ag_news"
    news.mkdir()
    for name in ("train.csv", "test.csv"):
        news.joinpath(name).write_text("".join(f'"{i % 4 + 1}","{text(rng)}","{text(rng)}"\n' for i in range(100)))
    news.joinpath("classes.txt").write_text("World\nSports\nBusiness\nSci/Tech\n")
    for part in ("train", "test"):
        for label in ("pos", "neg"):
            reviews = folder / "aclImdb" / part / label
            reviews.mkdir(parents=True)
            for i in range(30):
                reviews.joinpath(f"{i}_7.txt").write_text(text(rng))
    spam = folder / "sms_spam"
    spam.mkdir()
    spam.joinpath("SMSSpamCollection").write_text("".join(f"{('ham', 'spam')[i % 2]}\t{text(rng)}\n" for i in range(200)))
    corpus = folder / "tinyshakespeare"
    corpus.mkdir()
    corpus.joinpath("input.txt").write_text("".join(f"ROMEO:\n{text(rng)}\n\n" for _ in range(400)))


def scratch(folder, freight, page):
    """The files that a page may name: none in the README, which is read in a fresh clone; in the other pages those that
    docs/README.md tells the reader to write, and what the pages about the server and about class names need."""
    (folder / "freight").symlink_to(freight)
    tools = folder / ".bin"
    tools.mkdir()
    (tools / "freight").symlink_to(freight)
    if page.name == "README.md" and page.parent == ROOT:
        return
    for command in SAMPLE_COMMANDS:
        subprocess.run(["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}, check=False,
                       stdout=subprocess.DEVNULL)
    (folder / "secret.txt").write_text("a secret\n")
    (folder / "names.txt").write_text("circle\nsquare\ntriangle\n")


# ---- running --------------------------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A `freight serve` line in the background, and the port that stands for 8000 meanwhile."""

    def __init__(self, line, folder, environment):
        self.port = free_port()
        line = re.sub(r"\s+--port[= ]\d+", "", line.split(" #")[0])
        self.log = (folder / "server.log").open("w+")
        self.process = subprocess.Popen(["bash", "-c", f"exec {line} --port {self.port}"], cwd=folder, env=environment, stdout=self.log,
                                        stderr=subprocess.STDOUT)
        for _ in range(600):
            if self.process.poll() is not None:
                break
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/health/ready", timeout=5).read()
                return
            except OSError:
                time.sleep(0.1)
        self.log.seek(0)
        raise RuntimeError(f"no answer of the server: {self.log.read()}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.log.close()
        if code != 143:
            raise RuntimeError(f"the server ended with {code} at SIGTERM, need 143")


def normal(line):
    line = re.sub(r"^(freight \S+ on ).*?(, \d+ threads?)?$", lambda m: f"{m[1]}MACHINE{m[2] or ''}", line.replace(" * best", "").rstrip())
    line = re.sub(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?", "#", line)
    return re.sub(r"\s+", " ", line)


def matches(shown, printed):
    """Whether the lines that a page shows are those printed; '...' alone stands for any lines, in a line for its rest."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(matches(shown[1:], printed[i:]) for i in range(len(printed) + 1))
    if not printed:
        return False
    pattern = re.escape(shown[0]).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, printed[0]) is not None and matches(shown[1:], printed[1:])


class Page:
    def __init__(self, path, freight, data, folder):
        self.path, self.folder, self.server, self.faults, self.ran, self.passed_over = path, folder, None, [], 0, 0
        scratch(folder, freight, path)
        keep = {name: os.environ[name] for name in ("HOME", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
        self.environment = {**keep, "PATH": f"{folder}/.bin:{os.environ['PATH']}", "FREIGHT_DATA": str(data), "CI": "1", "LC_ALL": "C.UTF-8",
                            "FREIGHT_CACHE": str(data.parent / "cache"), "FREIGHT_TUNE": "0", "FREIGHT_SHARE_CPUS": "0", "OMP_WAIT_POLICY": "passive",
                            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"), "TMPDIR": str(folder)}

    def fault(self, line, what):
        self.faults.append(f"{self.path.relative_to(ROOT)}:{line}: {what}")

    def run(self, line, command, code):
        """Runs one line; its output. None where it was a server."""
        self.ran += 1
        began = time.monotonic()
        if re.match(r"(\./)?freight serve\b", command):
            self.stop()
            try:
                self.server = Server(command, self.folder, self.environment)
            except RuntimeError as e:
                self.fault(line, f"`{command}`: {e}")
            return None
        if self.server:
            command = command.replace("127.0.0.1:8000", f"127.0.0.1:{self.server.port}")
            command = re.sub(r"^curl ", "curl --silent --show-error --fail-with-body ", command)
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
        if done.returncode != code:
            self.fault(line, f"`{command}` exits with {done.returncode}, need {code}; it printed\n{done.stdout[-3000:]}")
        if os.environ.get("FREIGHT_LOG_DOCS"):
            print(f"  {time.monotonic() - began:6.2f} s  {command}", flush=True)
        return done.stdout

    def stop(self):
        server, self.server = self.server, None
        if server:
            try:
                server.stop()
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                self.fault(0, str(e))

    def check(self):
        found, faults = blocks(self.path)
        self.faults += [f"{self.path.relative_to(ROOT)}:{f}" for f in faults]
        printed = name = None  # by the block of commands right before; of the file that the next block is
        for line, info, lines in found:
            words = info.split()
            if info == "file":
                name = lines[0]
                continue
            if name is not None:
                (self.folder / name).write_text("\n".join(lines) + "\n")
                name = None
            if info == "before":
                self.run(line, lines[0], 0)
            elif words and words[0] == "sh" and "not-run:" not in info:
                if words[1:] and (len(words) != 3 or words[1] != "exit"):
                    self.fault(line, f"'{info}': need `sh`, `sh exit CODE` or `sh not-run: REASON`")
                    continue
                code, printed = (int(words[2]) if words[1:] else 0), ""
                for command in commands(lines):
                    printed += self.run(line, command, code) or ""
                continue
            elif words and words[0] == "sh":
                self.passed_over += len(commands(lines))
                if not info.split("not-run:")[1].strip():
                    self.fault(line, "not-run needs a reason")
            elif info == "text" and printed is not None:
                shown = [normal(x) if x != "..." else x for x in lines]
                if not matches(shown, [normal(x) for x in printed.splitlines() if not PROGRESS.match(x)]):
                    self.fault(line, "the block is not what was printed:\n" + printed)
            printed = None
        self.stop()


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    chosen = [pathlib.Path(p).resolve() for p in sys.argv[2:]] or pages()
    freight = build / "bin/freight"
    faults = []
    with tempfile.TemporaryDirectory(prefix="freight-docs-") as folder:
        folder = pathlib.Path(folder)
        (folder / "data").mkdir()
        named_sets(folder / "data")
        for number, path in enumerate(chosen):
            place = folder / str(number)
            place.mkdir()
            page, began = Page(path, freight, folder / "data", place), time.monotonic()
            try:
                page.check()
            finally:
                if page.server:
                    page.server.process.kill()
            print(f"{path.relative_to(ROOT)}: {page.ran} lines run, {page.passed_over} not, {time.monotonic() - began:.1f} s", flush=True)
            faults += page.faults
            shutil.rmtree(place)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
