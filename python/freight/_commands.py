"""Runs the package's command and returns its results as Python objects. The functions that call this, with the command's
arguments and flags as their parameters, are generated (generate.py)."""
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import weakref

from . import _core

KINDS = {1: "runtime", 2: "usage", 3: "data", 4: "device", 5: "capacity", 6: "diverged", 7: "peer_lost", 8: "checkpoint",
         9: "verification"}
ERROR = "freight: error: "


class CommandError(RuntimeError):
    """A command that failed. `kind` is "usage", "data", "device", "capacity", "diverged", "peer_lost", "checkpoint",
    "verification" or "runtime"; `exit_code` is the command's."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code
        self.kind = KINDS.get(exit_code, "runtime")

    def __reduce__(self):
        return type(self), (self.args[0], self.exit_code)


def _text(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in value.items()]
    if isinstance(value, float):
        return repr(value)
    return str(os.fspath(value) if isinstance(value, os.PathLike) else value)


def _words(flag, kind, value):
    """The command line of one keyword."""
    if kind == "flag" and isinstance(value, (bool, int)):
        return [flag if value else "--no-" + flag[2:]]
    if isinstance(value, dict):
        value = _text(value)
    if isinstance(value, (list, tuple)):
        texts = [_text(v) for v in value]
        return [f"{flag}={t}" for t in (texts if kind == "list" else [",".join(texts)])]
    return [f"{flag}={_text(value)}"]


def _environment():
    environment = dict(os.environ)
    if sys.prefix != sys.base_prefix:
        environment.setdefault("VIRTUAL_ENV", sys.prefix)  # the command loads libraries of this environment, too
    environment["FREIGHT_PYTHON_EXECUTABLE"] = sys.executable or "python3"  # of scripts that launch starts
    fallback = os.path.join(os.path.dirname(__file__), "lib", "fallback")
    with open("/proc/self/maps") as maps:
        if fallback in maps.read():  # this system has no libgomp
            environment["LD_LIBRARY_PATH"] = ":".join([fallback, *filter(None, [environment.get("LD_LIBRARY_PATH")])])
    return environment


class _Process:
    """The running command. What it writes to standard error is shown as it appears, but for the error at the end."""

    def __init__(self, words, shown=False):
        command = [os.path.join(os.path.dirname(__file__), "bin", "freight"), *words]
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self._error, self._at_line = "", True  # what is not shown yet, and if it begins a line
        self._pieces, self._show = [], shown
        source, sink = _terminal() if terminal else os.pipe()
        try:
            # In a group of its own, so that an interrupt reaches it once, from here.
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sink, env=_environment(), start_new_session=True)
        finally:
            os.close(sink)
        self.readers = [threading.Thread(target=self._read_errors, args=(source,), daemon=True)]
        self.readers[0].start()

    def _read_errors(self, source):
        with os.fdopen(source, "rb", 0) as stream:
            while data := _piece(stream):
                self._show_error(data.decode("utf-8", "replace").replace("\r\n", "\n"))

    def _show_error(self, text):
        text = self._error + text
        found = next((m for m in re.finditer(r"^" + ERROR, text, re.M) if m.start() > 0 or self._at_line), None)
        line = max(text.rfind("\n"), text.rfind("\r")) + 1
        if found:
            cut = found.start()
        else:  # a line could become an error
            cut = line if (line > 0 or self._at_line) and ERROR.startswith(text[line:]) else len(text)
        shown, self._error = text[:cut], text[cut:]
        if shown and sys.stderr is not None:
            self._at_line = shown[-1] in "\n\r"
            sys.stderr.write(shown)
            sys.stderr.flush()

    def finish(self):
        """Waits for the end and returns standard output. An interrupt is handed to the command once, which saves its work."""
        self.readers.append(threading.Thread(target=self._read_output, daemon=True))
        self.readers[-1].start()
        interrupted = False
        while True:
            try:
                code = self.process.wait()
                for reader in self.readers:
                    reader.join()
                break
            except KeyboardInterrupt:
                interrupted = True
                self.stop(signal.SIGINT)
            except BaseException:  # raised by a handler of another signal
                self.stop(signal.SIGTERM)
                raise
        if interrupted:
            raise KeyboardInterrupt
        text = "".join(self._pieces)
        findings = 0 < code < 128 and not self._error and text.startswith("{")  # which are the result, as the code tells scripts
        if not findings:
            self.check(code)
        return text

    def _read_output(self):
        with self.process.stdout as stream:
            while data := stream.read1(1 << 16):
                text = data.decode("utf-8", "replace")
                if self._show and sys.stdout is not None:
                    sys.stdout.write(text)
                    sys.stdout.flush()
                else:
                    self._pieces.append(text)

    def stop(self, number):
        try:
            self.process.send_signal(number)
        except ProcessLookupError:
            pass

    def check(self, code):
        message = self._error.removeprefix(ERROR).strip()
        if code == 0:
            if message:
                print(self._error, file=sys.stderr)
            return
        if code < 0:
            message = message or f"the command was ended by {signal.Signals(-code).name}"
        if code in (-signal.SIGINT, 128 + signal.SIGINT):
            raise KeyboardInterrupt(message)
        raise CommandError(message or f"the command ended with exit code {code}", max(code, 1))


def _terminal():
    """A terminal of the same width, for the line that shows progress."""
    import fcntl
    import pty
    import termios
    import tty

    source, sink = pty.openpty()
    tty.setraw(sink)
    try:
        fcntl.ioctl(sink, termios.TIOCSWINSZ, fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, b"\0" * 8))
    except (OSError, ValueError):  # a terminal that has no size
        pass
    return source, sink


def _piece(stream):
    try:
        return stream.read(1 << 16)
    except OSError:  # the other end of a terminal is closed
        return b""


def _documents(text):
    """The JSON documents in a text; None if it is another text."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        try:
            document, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return None
        found.append(document)
        at = re.compile(r"\s*").match(text, at).end()
    return found


def _flat(value):
    """The values of an argument, of which a command may take several: serve(a, b) and serve([a, b])."""
    if isinstance(value, (list, tuple)):
        return [v for part in value for v in _flat(part)]
    return [] if value is None else [value]


def command_line(name, arguments, options, kinds):
    """`arguments` in their order, None for those that are left out, and options by the command's flags."""
    words = name.split()
    for flag, value in options.items():
        if value is not None:
            words += _words(flag, kinds[flag], value)
    plain = []
    for value in arguments:
        plain += [_text(v) for v in _flat(value)]
    like_flags = name != "launch" and any(len(w) > 1 and w.startswith("-") for w in plain)
    return words + ["--"] * like_flags + plain


def _need_none(name, others, kinds):
    """Refuses keywords that are no flags of the command: aliases of flags, and names near to them, with the flag's keyword."""
    for other in others:
        known = [flag[2:].replace("-", "_") for flag in kinds]
        aliases = {alias: keyword for keyword, aliases in _core.settings().items() if keyword in known for alias in aliases}
        near = difflib.get_close_matches(other, known, 1)
        hint = f": use {aliases[other]}" if other in aliases else f"; did you mean {near[0]}?" if near else ""
        raise TypeError(f"{name.replace(' ', '.')}() got an unexpected keyword argument {other!r}{hint}")


def _shown(options):
    """The options, of which progress=False, and verbose=0 as in fit, shows nothing but warnings and errors."""
    silent = options["--progress"] is False or options.get("--verbose") in (0, False)
    options = {flag: value for flag, value in options.items() if flag != "--progress" and not (silent and flag == "--verbose")}
    return {**options, "--quiet": True} if silent else options


def run(name, arguments, options, kinds, others):
    """The result of a command: what it prints as JSON where it has that form, else its text."""
    _need_none(name, others, kinds)
    options = _shown(options)
    if name == "launch" and arguments[-1] and str(arguments[-1][0]).endswith(".py"):
        arguments = [[sys.executable, *arguments[-1]]]
    if "--json" in kinds and not any(options.get(other) for other in ("--csv", "--jsonl")):
        options = {**options, "--json": True}
    text = _Process(command_line(name, arguments, options, kinds), shown=name == "launch").finish()
    documents = _documents(text)
    if documents is None:
        return text.rstrip("\n")
    if name == "predict":  # a document per sample
        return documents if text else None
    return documents[0] if len(documents) == 1 else documents or None


class Server:
    """A running `freight serve`. `url` is its address; close() ends it when the requests in progress are done. Also a
    context manager."""

    def __init__(self, words):
        self._command = _Process(words)
        process = self._command.process
        line = process.stdout.readline().decode("utf-8", "replace")
        found = re.match(r"serving (.*) on (http\S*)/$", line)
        if not found:
            self._command.readers[0].join(10)
            self._command.check(process.wait() or 1)
        self.models, self.url = found[1].split(", "), found[2]
        self._end = weakref.finalize(self, _end, self._command)

    def close(self):
        """Ends the server when the requests in progress are done."""
        self._end()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        return f"freight.Server({self.url!r}, models={self.models!r}, {'running' if self._end.alive else 'closed'})"


def _end(command):
    command.stop(signal.SIGTERM)
    command.process.wait()
    command.process.stdout.close()


def serve(arguments, options, kinds, others):
    _need_none("serve", others, kinds)
    return Server(command_line("serve", arguments, _shown(options), kinds))
