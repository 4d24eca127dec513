#!/usr/bin/env python3
"""Sweeps of what strangers may do to the command, over the command as it is built: none may end in a signal, hang, or answer without a name.

usage: tests/sweeps.py BUILD_DIR [SWEEP...]

kills      SIGKILL before and after each rename, unlink, fsync, ... of a run that saves; the run then goes on to the same weights
fields     each field of each layer of a spec with each hostile value
specs      damaged specs
models     damaged stored models
framings   damaged heads and frames of HTTP requests; after each the server answers a sound one
files      a pipe, a folder, /dev/zero and an empty file where a command reads a file
pairs      two runs into one directory at once: one wins, the other is told so

Draws come from a fixed seed. A short part of each runs in every suite; FREIGHT_LONG=1 (./test --long) runs them whole.
"""
import itertools
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONG = bool(os.environ.get("FREIGHT_LONG"))
FREIGHT, WORK = "", pathlib.Path()
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
KILL_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static atomic_int calls;
static void passed(void) {
  const char* at = getenv("KILL_AT");
  if (atomic_fetch_add(&calls, 1) == (at ? atoi(at) : -1)) kill(getpid(), SIGKILL);
}
#define WATCH(name, parameters, arguments)                          \
  int name parameters {                                             \
    static int (*real) parameters;                                  \
    if (!real) real = (int (*) parameters)dlsym(RTLD_NEXT, #name);  \
    passed();                                                       \
    const int result = real arguments;                              \
    passed();                                                       \
    return result;                                                  \
  }
WATCH(rename, (const char* a, const char* b), (a, b))
WATCH(renameat2, (int x, const char* a, int y, const char* b, unsigned f), (x, a, y, b, f))
WATCH(unlink, (const char* a), (a))
WATCH(unlinkat, (int d, const char* a, int f), (d, a, f))
WATCH(rmdir, (const char* a), (a))
WATCH(remove, (const char* a), (a))
WATCH(fsync, (int fd), (fd))
WATCH(symlink, (const char* a, const char* b), (a, b))
WATCH(mkdir, (const char* a, unsigned m), (a, m))
__attribute__((destructor)) static void count(void) {
  const char* path = getenv("KILL_COUNT");
  FILE* f = path ? fopen(path, "w") : 0;
  if (f) fprintf(f, "%d\n", calls);
  if (f) fclose(f);
}
"""


def run(args, seconds=120, **environment):
    """Exit code (negative: a signal; None: it did not end), and the messages."""
    try:
        r = subprocess.run([FREIGHT, *map(str, args)], env=dict(ENVIRONMENT, **environment), capture_output=True, timeout=seconds,
                           stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None, "did not end"
    return r.returncode, r.stderr.decode(errors="replace")


def fault_of(code, err, names=()):
    """What is wrong with an answer, or nothing: it ends by itself, and a refusal is short and names the thing."""
    if code is None or code < 0 or code >= 126:
        return f"ended with {code}: {err[-200:]}"
    if code == 0:
        return ""
    if "internal" in err or len(err) > 2000 or not err.strip():
        return f"code {code} with {err[:300]!r}"
    missing = [n for n in names if n not in err]
    return f"code {code} without {missing} in {err[:300]!r}" if missing else ""


def part(items, few):
    """All with FREIGHT_LONG, else some of them, the same each time."""
    items = list(items)
    return items if LONG else random.Random(5).sample(items, min(few, len(items)))


def kills():
    source, library = WORK / "kill.c", WORK / "kill.so"
    source.write_text(KILL_SOURCE)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", library, source, "-ldl"], check=True)
    for ways in ([], ["--save-in-place"]):
        def train(name, **environment):
            return run(["train", "digits", "--model", "mlp", "-b", "2000", "-q", "--deterministic", "--keep", "1", "--save-every", "5",
                        "--epochs", "2", "--resume", "auto", "-o", WORK / name, *ways], FREIGHT_CACHE=str(WORK / "cache"), **environment)

        whole, count = f"whole{len(ways)}", WORK / "count"
        code, err = train(whole)
        yield f"whole {ways}", f"{code} {err}" if code != 0 else ""
        weights = (WORK / whole / "model.safetensors").read_bytes()
        train(f"counted{len(ways)}", LD_PRELOAD=str(library), KILL_COUNT=str(count))
        for k in part(range(int(count.read_text())), 4):
            name = f"killed{len(ways)}-{k}"
            code, err = train(name, LD_PRELOAD=str(library), KILL_AT=str(k))
            if code == 0:
                continue  # threads came in another order, and there were fewer calls
            fault = "" if code == -9 else f"not killed: {code} {err}"
            code, err = train(name)
            left = [p for p in (WORK / name).rglob("*") if ".tmp-" in p.name or p.suffix in (".new", ".old") or p.name.startswith(".step-")]
            if code != 0:
                fault = f"does not go on: {code} {err}"
            elif (WORK / name / "model.safetensors").read_bytes() != weights:
                fault = "other weights"
            elif left:
                fault = f"left {left}"
            subprocess.run(["rm", "-rf", WORK / name], check=True)
            yield f"call {k} {ways}", fault


HOSTILE = [-1, 0, 1, 2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**63 - 1, 2**63, -2**63, 2**64, 10**30, 1e308, -1e308, 5e-324, 0.5, -0.0, True,
           None, "", "x", "1", "\u0000", "a" * 100000, [], [1], [1, 2, 3], [-1, 2**31], [2**62, 2**62], [[1]], [None], {}, {"a": 1},
           [1] * 10000]


def layers_of_document():
    layers, name = {}, ""
    for line in (ROOT / "docs" / "layers.md").read_text().splitlines():
        if m := re.match(r"\| \*\*`(\w+)`\*\*", line):
            name = m[1]
            layers[name] = []
        elif (m := re.match(r"\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", line)) and name:
            layers[name].append((m[1], m[2], m[3].strip()))
        elif name and not line.startswith("|"):
            name = ""
    return layers


def sound_value(kind):
    return 0.1 if kind.startswith("number") else 2 if "integer" in kind else True if "true" in kind else kind.split(",")[0]


TAIL = [{"type": "Flatten"}, {"type": "Linear", "out": 3}]  # makes any result one of classes


def plan_layer(layer, setting, inputs):
    path = WORK / "field.json"
    path.write_text(json.dumps({"format": "freight-model-1", **inputs, "net": [{"type": layer, **setting}, *TAIL]}))
    return run(["plan", "--model", path, "--batch-size", "2", "--seed", "0"])


def sound_layers():
    """Each layer with settings and an input that it takes, and its fields."""
    candidates = [{"input": shape, "input_dtype": dtype} for shape in ([4, 8, 8], [6, 8], [8], [4, 3, 8, 8]) for dtype in ("f32", "i32")]
    for layer, rows in layers_of_document().items():
        setting = {f: sound_value(kind) for f, kind, usual in rows if not usual}
        for inputs in candidates:
            if plan_layer(layer, setting, inputs)[0] == 0:
                yield layer, setting, inputs, [f for f, _, _ in rows]
                break


def fields():
    layers = list(sound_layers())
    names = [layer for layer, *_ in layers]
    yield f"layers that could be made: {names}", "" if len(layers) >= 25 else "too few"
    cases = [(l, s, i, f, value) for l, s, i, rows in layers for f in rows for value in HOSTILE]
    for layer, setting, inputs, field, value in part(cases, 60):
        code, err = plan_layer(layer, {**setting, field: value}, inputs)
        yield f"{layer}.{field} = {json.dumps(value)[:60]}", fault_of(code, err)


def damaged(text, rng):
    """One to four edits of bytes."""
    b = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(max(1, len(b)))
        what = rng.randrange(5)
        if what == 0 and b:
            b[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            del b[at:at + rng.randint(1, 16)]
        elif what == 2:
            b[at:at] = b[at:at + rng.randrange(64)]
        elif what == 3 and b:
            b[at] = rng.choice(b"0123456789[]{}\",:-\x00\xff")
        elif rng.random() < 0.1:
            del b[at:]
    return bytes(b)


def specs():
    nets = ["lenet", "resnet20", "text_cnn", "gpt_char", "text_lstm"]
    texts = []
    for net in nets:
        r = subprocess.run([FREIGHT, "models", "show", net, "--spec"], env=ENVIRONMENT, capture_output=True)
        if r.returncode == 0:
            texts.append(r.stdout)
    assert texts
    for i in range(2000 if LONG else 20):
        rng = random.Random(i)
        path = WORK / "damaged.json"
        path.write_bytes(damaged(texts[i % len(texts)], rng))
        code, err = run(["plan", "--model", path, "--batch-size", "2"])
        yield f"spec {i}", fault_of(code, err, ["damaged.json"] if code == 3 else [])


def stored_model():
    folder = WORK / "model"
    if not folder.exists():
        code, err = run(["train", "digits", "--model", "lenet", "-b", "256", "--max-steps", "2", "-q", "-o", folder])
        assert code == 0, err
    return folder / "model.safetensors"


def models():
    text = stored_model().read_bytes()
    head = 8 + int.from_bytes(text[:8], "little")
    for i in range(1000 if LONG else 12):
        rng = random.Random(i)
        path = WORK / "damaged.safetensors"
        path.write_bytes(damaged(text[:head], rng) + text[head:] if i % 8 else damaged(text, rng))
        code, err = run([["eval", "--weights", path], ["export", path, "--output", WORK / "d.onnx"], ["predict", path, "--json", WORK]][i % 3])
        yield f"model {i}", fault_of(code, err, ["damaged.safetensors"] if code == 8 else [])


def ask(port, text):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall(text)
        s.shutdown(socket.SHUT_WR)
        answer = b""
        while more := s.recv(65536):
            answer += more
        return answer


def framings():
    server = subprocess.Popen([FREIGHT, "serve", stored_model(), "--port", "0"], env=ENVIRONMENT, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    try:
        port = next(int(m[1]) for line in server.stdout if (m := re.search(r"127\.0\.0\.1:(\d+)|localhost:(\d+)", line)))
        live = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        body = b'{"inputs":[{"name":"image","shape":[1,1,28,28],"datatype":"UINT8","data":[' + b"0," * 783 + b"0]}]}"
        plain = b"POST /v2/models/model/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        chunked = (b"POST /v2/models/model/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
                   b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
        for i in range(500 if LONG else 30):
            rng = random.Random(i)
            text, end = (plain, 90) if i % 2 else (chunked, 120)
            text = damaged(text[:end], rng) + text[end:]
            fault = ""
            try:
                answer = ask(port, text)
                if answer and not answer.startswith(b"HTTP/1."):
                    fault = f"answers {answer[:80]!r}"
            except (ConnectionResetError, BrokenPipeError):
                pass  # it refused before all was sent
            except OSError as e:
                fault = str(e)
            if b" 200 " not in ask(port, live)[:20]:
                fault = "does not answer what follows"
            yield f"framing {i}", fault or ("" if server.poll() is None else f"the server ended with {server.returncode}")
    finally:
        server.terminate()
        server.wait(60)


def files():
    pipe, folder, empty = WORK / "pipe", WORK / "folder", WORK / "empty"
    os.mkfifo(pipe)
    folder.mkdir()
    empty.write_bytes(b"")
    model = stored_model()
    things = [pipe, folder, pathlib.Path("/dev/zero"), pathlib.Path("/dev/null"), empty, WORK / "missing"]
    commands = [["train", "--config", "?", "--dry-run"], ["train", "--recipe", "?", "--dry-run"], ["train", "--data", "?", "--dry-run"],
                ["train", "digits", "--model", "?", "--dry-run"], ["train", "digits", "--weights", "?", "--dry-run"],
                ["train", "--resume", "?"], ["eval", "--weights", "?"], ["predict", "?", "?"], ["predict", model, "?"],
                ["plan", "--model", "?"], ["plan", "--model", "mlp", "--catalog", "?"], ["verify", "?"], ["serve", "?", "--port", "0"],
                ["report", "?"], ["export", "?", "--output", WORK / "o.onnx"], ["models", "show", "?"],
                ["generate", "?", "--prompt", "a"], ["serve", model, "--token", "@?", "--port", "0"], ["plan", "--plugin", "?", "--model", "mlp"]]
    for command, thing in part(itertools.product(commands, things), 25):
        args = [str(a).replace("?", str(thing)) for a in command]
        code, err = run(args)
        if code == 0 and thing.name in ("folder", "null", "empty"):
            code, err = 0, ""
        yield " ".join(args), fault_of(code, err, [str(thing)[:60]]) or ("taken" if code == 0 and thing.name in ("zero", "missing", "pipe") else "")


def pairs():
    for i in range(50 if LONG else 3):
        folder = WORK / f"pair{i}"
        args = [FREIGHT, "train", "digits", "--model", "mlp", "-b", "500", "--epochs", "2", "-q", "-o", folder, *(["--resume", "auto"] if i % 2 else [])]
        two = [subprocess.Popen(args, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        ends = [(p.communicate(timeout=120)[1], p.returncode) for p in two]
        codes = sorted(code for _, code in ends)
        # With --resume auto the second may come when the first has ended, and finds a whole run.
        told = all(code == 0 or str(folder) in err for err, code in ends)
        code, err = run(["eval", "--weights", folder / "model.safetensors", "-q"])
        fault = "" if codes in ([0, 2], [0, 0] if i % 2 else [0, 2]) and told else f"codes {codes}: {ends}"
        subprocess.run(["rm", "-rf", folder], check=True)
        yield f"pair {i}", fault or (f"the model is refused: {err}" if code != 0 else "")


SWEEPS = {f.__name__: f for f in (kills, fields, specs, models, framings, files, pairs)}


def main():
    global FREIGHT, WORK
    FREIGHT = str(pathlib.Path(sys.argv[1]).resolve() / "bin" / "freight")
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        WORK = pathlib.Path(work)
        for name in sys.argv[2:] or SWEEPS:
            start, count, wrong = time.time(), 0, []
            for case, fault in SWEEPS[name]():
                count += 1
                if fault:
                    wrong.append(f"{case}: {fault}")
            failed += len(wrong)
            print(f"{name}: {count} cases, {len(wrong)} wrong, {time.time() - start:.0f} s", flush=True)
            for line in wrong[:20]:
                print("  " + line[:400], flush=True)
    sys.exit(failed > 0)


main()
