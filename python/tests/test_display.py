"""Output of fit in terminals, notebooks and files, and the HTML of modules, plans and histories."""
import os
import pty
import re
import subprocess
import sys
import types
import xml.dom.minidom

import numpy as np
import pytest

import freight as fr
from freight import _display, callbacks, nn

X = np.random.default_rng(0).normal(size=(256, 4)).astype("f4")
Y = (X[:, 0] > 0).astype("i8")

PROGRAM = """
import sys, time
import numpy as np
from freight import callbacks, nn

class Slow(callbacks.Callback):
    wants_steps = True
    def on_train_batch_end(self, batch, logs):
        time.sleep(0.03)

x = np.random.default_rng(0).normal(size=(256, 4)).astype("f4")
nn.Linear(4, 2).fit(x, (x[:, 0] > 0).astype("i8"), epochs=2, batch_size=16, callbacks=Slow(), verbose=eval(sys.argv[1]))
"""


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def parsed(text):
    return xml.dom.minidom.parseString(f"<div>{text}</div>")


def test_modules_plans_and_histories_are_html():
    model = net()
    cells = [c.firstChild.data for c in parsed(model._repr_html_()).getElementsByTagName("td") if c.firstChild]
    assert cells == ["0", "Linear", "40", "1", "ReLU", "0", "2", "Linear", "18"] and "58 parameters" in model._repr_html_()
    assert [line.split() for line in model.summary().splitlines()][1:] == [
        ["0", "Linear", "40"], ["1", "ReLU", "0"], ["2", "Linear", "18"], ["58", "parameters"]]
    plan = fr.plan(lambda x: fr.exp(x) * 2, fr.ones(3))
    assert len(parsed(plan._repr_html_()).getElementsByTagName("tr")) == len(plan.steps) + 1
    history = model.fit(X, Y, validation_data=(X, Y), epochs=3, lr=0.1, verbose=0)
    page = parsed(history._repr_html_())
    assert len(page.getElementsByTagName("svg")) == 3  # loss, accuracy, rate
    assert len(page.getElementsByTagName("polyline")) == 5 and not page.getElementsByTagName("script")


def test_curves_have_gaps_where_values_are_not_finite():
    lines = parsed(_display.plot("a <b>", [1, 2, 3, 4], [("x", [1.0, float("nan"), 2.0, 3.0])])).getElementsByTagName("polyline")
    assert [len(line.getAttribute("points").split()) for line in lines] == [1, 2]
    assert _display.plot("a", [1], [("x", [float("inf")])]) == ""
    assert "polyline" in _display.plot("a", [1, 2], [("x", [5.0, 5.0])])


@pytest.mark.parametrize("verbose, lines", [(0, 0), (1, 2), (2, 2), (True, 2), (False, 0), ("auto", 2)])
def test_without_a_terminal_there_are_plain_lines(capfd, verbose, lines):
    net().fit(X, Y, epochs=2, verbose=verbose)
    out, errors = capfd.readouterr()
    assert errors == "" and "\r" not in out
    assert [line[:9] for line in out.splitlines()] == ["epoch 1/2", "epoch 2/2"][:lines]


def test_a_terminal_has_one_bar_with_rate_and_time_left():
    def shown(verbose):
        source, sink = pty.openpty()
        done = subprocess.run([sys.executable, "-c", PROGRAM, verbose], stderr=sink, stdout=subprocess.PIPE, text=True, timeout=100,
                              env={**os.environ, "COLUMNS": "120"})
        os.set_blocking(source, False)
        os.close(sink)
        try:
            text = os.read(source, 1 << 16).decode()
        except (BlockingIOError, OSError):
            text = ""
        os.close(source)
        assert done.returncode == 0, text
        return done.stdout, text

    out, bar = shown("1")
    assert out.count("epoch ") == 2 and bar.endswith("\r\x1b[K") and "\n" not in bar
    drawn = [line for line in bar.split("\r\x1b[K") if line]
    form = r"epoch [12]/2  \[#*\.*\] \d+/16  0:00:0\d left  [\d,]+ samples/s  loss \d\.\d{4}  accuracy \d\.\d{4}"
    assert len(drawn) > 3 and all(re.fullmatch(form, line) for line in drawn)
    assert shown("2")[1] == "" and shown("0") == ("", "")


def test_a_notebook_has_one_display_that_is_updated(monkeypatch):
    displays = []

    class ZMQInteractiveShell:
        pass

    class Display:
        def __init__(self, first):
            self.shown = [first]

        def update(self, page):
            self.shown.append(page)

    def display(page, display_id):
        displays.append(Display(page))
        return displays[-1]

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell
    part = types.ModuleType("IPython.display")
    part.HTML, part.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", part)
    net().fit(X, Y, epochs=3, validation_data=(X, Y))
    assert len(displays) == 1
    pages = displays[0].shown
    assert sum("epoch 2/3" in page for page in pages) >= 1 and "<progress" not in pages[-1] and pages[-1].count("<svg") == 3
    for page in pages:
        parsed(page)
    assert any("<progress" in page and "left" in page for page in pages)


def test_the_progress_callback_draws_the_bar_anywhere(capfd):
    net().fit(X, Y, epochs=1, verbose=0, callbacks=callbacks.Progress())
    assert "samples/s" in capfd.readouterr().err
    with pytest.raises(ValueError, match='verbose: expected 0 .nothing., 1 or "auto"'):
        net().fit(X, Y, verbose=3)


def test_ipython_is_not_imported():
    code = "import sys, numpy; from freight import nn; nn.Linear(2, 2).fit(numpy.ones((8, 2)), numpy.zeros(8, int)); assert 'IPython' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
