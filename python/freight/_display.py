"""Output of notebooks and terminals: tables and curves as HTML and SVG, and the progress of fit."""
import html
import math
import sys
import time

WIDTH, HEIGHT, LEFT, TOP = 300, 176, 56, 32  # of a plot, and the margins of its curves
COLORS = ("#1f77b4", "#d95f02")  # of training and validation


def table(rows, note=""):
    """A table, of which the first row is the head and columns of numbers are on the right."""
    numeric = [all(r[k].replace(",", "").replace(".", "").isdigit() for r in rows[1:]) for k in range(len(rows[0]))]
    lines = []
    for i, row in enumerate(rows):
        tag = "td" if i else "th"
        cells = (f'<{tag} style="text-align:{"right" if n else "left"}">{html.escape(c)}</{tag}>' for c, n in zip(row, numeric))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>" + (f"<p>{html.escape(note)}</p>" if note else "")


def layers(module):
    """(rows, note) of the layers of a module, with their parameters."""
    rows, known, lazy = [("layer", "type", "parameters")], {}, 0
    for name, part in module.named_modules():
        if not part._modules and part._is_unmade():
            rows.append((name or "(itself)", type(part).__name__, "?"))
            lazy += 1
            continue
        own = [p for p in (part.parameters() if not part._modules else part._held.values()) if p._trained]
        known |= {p._variable.identity: p.size for p in own}
        count = sum(p.size for p in own)
        if count or not part._modules:
            rows.append((name or "(itself)", type(part).__name__, f"{count:,}"))
    first_call = f" and those of {lazy} lazy layer{'s' * (lazy > 1)}, which the first call makes" if lazy else ""
    return rows, f"{sum(known.values()):,} parameters{first_call}"


def layers_text(module):
    rows, note = layers(module)
    widths = [max(len(r[i]) for r in rows) for i in range(3)]
    lines = [f"{r[0]:<{widths[0]}}  {r[1]:<{widths[1]}}  {r[2]:>{widths[2]}}".rstrip() for r in rows]
    return "\n".join([*lines, note])


def _points(xs, ys, x_of, y_of):
    """The lines of a curve, which has a gap where a value is not finite."""
    runs, run = [], []
    for x, y in zip(xs, ys):
        if math.isfinite(y):
            run.append((x_of(x), y_of(y)))
        elif run:
            runs, run = [*runs, run], []
    return [*runs, run] if run else runs


def plot(title, xs, curves):
    """An SVG image of curves over the epochs: (label, values) each."""
    values = [v for _, ys in curves for v in ys if math.isfinite(v)]
    if not values:
        return ""
    low, high = min(values), max(values)
    if low == high:
        low, high = low - abs(low) / 10 - 1e-9, high + abs(high) / 10 + 1e-9
    right, bottom = WIDTH - 12, HEIGHT - 26

    def x_of(x):
        return LEFT + (right - LEFT) * (x - xs[0]) / max(xs[-1] - xs[0], 1)

    def y_of(y):
        return bottom - (bottom - TOP) * (y - low) / (high - low)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11" '
             f'fill="currentColor"><text x="{LEFT}" y="14" font-weight="bold">{html.escape(title)}</text>',
             f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="currentColor" stroke-opacity="0.5"/>']
    for value in (low, (low + high) / 2, high):
        y = y_of(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="currentColor" stroke-opacity="0.15"/>'
                     f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for x in sorted({xs[0], xs[-1]}):
        parts.append(f'<text x="{x_of(x):.1f}" y="{bottom + 14}" text-anchor="middle">{x}</text>')
    for k, (label, ys) in enumerate(curves):
        for run in _points(xs, ys, x_of, y_of):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[k]}" stroke-width="1.6"/>'
                         f'<circle cx="{run[-1][0]:.1f}" cy="{run[-1][1]:.1f}" r="2.2" fill="{COLORS[k]}"/>')
        parts.append(f'<text x="{right}" y="{14 + 12 * k}" text-anchor="end" fill="{COLORS[k]}">{html.escape(label)}</text>')
    return "".join([*parts, "</svg>"])


def curves(epochs, history):
    """A plot for each figure, with that of validation in it."""
    names = [n for n in history if n.removeprefix("val_") == n or n.removeprefix("val_") not in history]
    plots = []
    for name in names:
        found = [("training" if "val_" + name in history else "", history[name])]
        if "val_" + name in history:
            found.append(("validation", history["val_" + name]))
        lengths = [(label, values) for label, values in found if len(values) == len(epochs)]
        plots.append(plot(name, epochs, lengths) if lengths else "")
    return "".join(plots)


def line_of(logs, figures):
    """The line of an epoch."""
    shown = "  ".join(f"{k} {v:.4f}" if k != "lr" else f"lr {v:.3g}" for k, v in figures.items())
    return f"epoch {logs['epoch']}/{logs['epochs']}  {shown}  {logs['samples_per_s']:,.0f} samples/s  {logs['seconds']:.1f} s"


def _figures(logs, names):
    return "  ".join(f"{k} {logs[k]:.4f}" for k in names if k in logs)


def _duration(seconds):
    minutes, seconds = divmod(math.ceil(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


class Lines:
    """A line per epoch on standard output."""

    wants_steps = False
    names = ("loss", "accuracy")  # of the figures that are shown while an epoch runs

    def begin(self):
        pass

    def step(self, logs):
        pass

    def epoch(self, logs, figures, history):
        print(line_of(logs, figures), flush=True)

    def end(self):
        pass


class _Paced(Lines):
    """What shows steps, ten times a second."""

    wants_steps = True

    def begin(self):
        self._began, self._shown, self._first = time.monotonic(), 0.0, None

    def step(self, logs):
        now = time.monotonic()
        if self._first is None:  # steps that a resumed run has behind it took no time here
            self._first = logs["total_step"] - 1
        if now - self._shown < 0.1:
            return
        self._shown = now
        total = logs["epochs"] * logs["steps"]
        done = max(logs["total_step"] - self._first, 1)
        self.show(logs, _duration((now - self._began) * (total - logs["total_step"]) / done))


class Bar(_Paced):
    """A line of the terminal (standard error) that follows the steps, and lines of epochs above it."""

    def show(self, logs, left):
        import shutil

        done = 20 * logs["step"] // max(logs["steps"], 1)
        line = (f"epoch {logs['epoch']}/{logs['epochs']}  [{'#' * done}{'.' * (20 - done)}] {logs['step']}/{logs['steps']}  "
                f"{left} left  {logs['samples_per_s']:,.0f} samples/s  {_figures(logs, self.names)}")
        self._write(line[:shutil.get_terminal_size().columns - 1])

    def epoch(self, logs, figures, history):
        self._write("")
        super().epoch(logs, figures, history)

    def end(self):
        self._write("")

    def _write(self, text):
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


class Notebook(_Paced):
    """One display of a notebook that is replaced as the run goes on."""

    def begin(self):
        from IPython.display import HTML, display  # type: ignore[import-not-found]

        super().begin()
        self._html, self._curves = HTML, ""
        self._display = display(HTML(""), display_id=True)

    def show(self, logs, left):
        self._update(f'<p><progress value="{logs["step"]}" max="{logs["steps"]}"></progress> epoch {logs["epoch"]}/{logs["epochs"]}, '
                     f'step {logs["step"]}/{logs["steps"]}: {_figures(logs, self.names)}  {logs["samples_per_s"]:,.0f} samples/s, {left} left</p>')

    def epoch(self, logs, figures, history):
        self._curves = curves(history.epoch, history.history)
        self._last = f"<p>{html.escape(line_of(logs, figures))}</p>"
        self._update(self._last)

    def end(self):
        if self._curves:
            self._update(self._last)

    def _update(self, line):
        self._display.update(self._html(line + self._curves))


class Silent(Lines):
    def epoch(self, logs, figures, history):
        pass


def _in_notebook():
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython and hasattr(ipython, "get_ipython") else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def progress(verbose):
    """What shows a run: 0 nothing, 2 a line per epoch, 1 the same with progress in a notebook or a terminal."""
    if verbose not in (0, 1, 2, "auto"):
        raise ValueError(f'fit: verbose: expected 0 (nothing), 1 or "auto" (progress), or 2 (a line per epoch), got {verbose!r}')
    if verbose == 0:
        return Silent()
    if verbose == 2:
        return Lines()
    if _in_notebook():
        return Notebook()
    return Bar() if sys.stderr is not None and sys.stderr.isatty() else Lines()
