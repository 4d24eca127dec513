"""The commands as functions: results, errors, progress, interrupts, servers, ranks."""
import inspect
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import numpy
import pytest

import freight


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, texts and a trained network."""
    before = os.getcwd()
    path = tmp_path_factory.mktemp("commands")
    os.chdir(path)
    rows = [f"{i % 7},{'red' if i % 3 else 'blue'},{i % 7 * 2 + (i % 3 > 0)}" for i in range(200)]
    (path / "table.csv").write_text("\n".join(["size,color,price", *rows]) + "\n")
    (path / "damaged.safetensors").write_bytes(b"no model")
    (path / "run").mkdir()
    trained = freight.train("digits", model="mlp", epochs=1, max_steps=20, output_dir="run/net", progress=False, quiet=True)
    assert pathlib.Path(trained["model"]).samefile(path / "run/net/model.safetensors")
    yield path
    os.chdir(before)


def test_training_returns_what_the_command_reports(folder):
    result = freight.train(folder / "table.csv", target="price", model="linear", output_dir="run/linear", quiet=True)
    assert result["test_rmse"] >= 0
    assert json.loads((folder / "run/linear/config.json").read_text())["model"] == "linear"
    rows = freight.predict(result["model"], "table.csv")
    assert len(rows) == 200 and isinstance(rows[0], dict)
    assert freight.predict(result["model"], "table.csv", csv=True).startswith("path,price\n")
    assert freight.predict(result["model"], "table.csv", csv=True, output="out.csv") is None
    assert (folder / "out.csv").read_text().startswith("path,price\n")


def test_results_have_the_keys_that_the_help_lists(folder):
    table = freight.train("table.csv", target="price", model="linear", output_dir="run/keys", quiet=True)
    scores = freight.eval(table["model"], quiet=True)
    assert scores["rmse"] == scores["scores"]["rmse"]["value"] and scores["top1"] is None
    classes = freight.eval("run/net/model.safetensors", quiet=True)
    assert classes["accuracy"] == classes["scores"]["accuracy"]["value"] and classes["top1"] == pytest.approx(100 * classes["accuracy"])
    results = {"train": table, "eval": scores, "predict": freight.predict(table["model"], "table.csv")[0], "plan": freight.plan("digits", model="mlp"),
               "export": freight.export("run/net/model.safetensors", output="net.onnx"), "runs": freight.runs("run")[0],
               "verify": freight.verify("run/net/model.safetensors", quiet=True)}
    for name, result in results.items():
        keys = re.sub(r" \(.*?\)", "", getattr(freight._command_functions, name).__doc__.rpartition("Returns ")[2].partition(": ")[2].strip(" .\n")).split(", ")
        assert len(keys) >= 2 and [k for k in keys if k not in result] == [], name


@pytest.mark.parametrize("call, message", [
    (lambda: freight.train("digits", learning_rate=0.1), r"train\(\) got an unexpected keyword argument 'learning_rate': use lr$"),
    (lambda: freight.train("digits", patience=3), "'patience': use early_stop$"), (lambda: freight.plan("digits", wd=3), "'wd': use weight_decay$"),
    (lambda: freight.train("digits", epoch=3), r"'epoch'; did you mean epochs\?$"), (lambda: freight.serve("x", prt=3), r"'prt'; did you mean port\?$"),
    (lambda: freight.verify("x", learning_rate=1), "'learning_rate'$")])
def test_keywords_that_are_no_flags_are_refused_with_the_flag_that_is_meant(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_values_in_the_help_keep_their_letters():
    text = freight.train.__doc__
    assert "optimizer: sgd, adam, adamw, lion, rmsprop, muon, adagrad or nadam." in text and "precision: fp32, tf32, bf16" in text and "device: auto, cpu" in text
    assert "momentum: Momentum of sgd." in text and "format: onnx;" in freight.export.__doc__


def test_the_other_commands_return_what_they_print_as_json(folder):
    model = "run/net/model.safetensors"
    assert 0 <= freight.eval(model, quiet=True)["top1"] <= 100
    plan = freight.plan("digits", model="mlp", batch_size=32)
    assert plan["batch_size"] == 32 and plan["total_bytes"] > plan["arena_bytes"] > 0
    exported = freight.export(model, output="net.onnx")
    assert exported["nodes"] > 3 and 100_000 < exported["weight_bytes"] < exported["bytes"] == (folder / "net.onnx").stat().st_size
    assert freight.verify(model)["passed"] is True
    assert [run["status"] for run in freight.runs("run") if run["path"] == "run/net"] == ["complete"]
    assert freight.advise("digits", model="mlp", epochs=1, deadline="1d")
    assert freight.report("run/net", output="page.html").startswith("page.html")
    assert "<html" in (folder / "page.html").read_text()


def test_a_plan_of_a_function_is_not_the_command():
    assert freight.plan(lambda x: freight.exp(x) * 2, freight.ones(3)).steps


def test_parameters_are_the_commands_flags():
    parameters = inspect.signature(freight.train).parameters
    assert list(parameters)[0] == "data" and {"batch_size", "lr", "devices", "lambda_", "set"} <= set(parameters)
    assert "batch_size: Samples per step" in freight.train.__doc__
    with pytest.raises(TypeError, match="batchsize"):
        freight.train("digits", batchsize=3)


def test_values_become_flags(folder):
    config = freight.train("digits", set={"optimizer.lr": 0.25}, model="mlp", decay_norm_bias=False, keep=7, print_config=True)
    assert config["keep"] == 7
    assert config["optimizer"]["lr"] == 0.25 and config["optimizer"]["decay_norm_bias"] is False


@pytest.mark.parametrize("call, kind, text", [
    (lambda: freight.train("digits", lr=-3.0, quiet=True), "usage", "--lr"),
    (lambda: freight.train("no_such_data"), "data", "no_such_data"),
    (lambda: freight.eval("missing.safetensors"), "data", "missing.safetensors"),
    (lambda: freight.eval("damaged.safetensors"), "checkpoint", "damaged.safetensors"),
    (lambda: freight.train("digits", device="cuda:77"), "device", "cuda"),
    (lambda: freight.train("digits", device_memory="1KiB", progress=False), "capacity", "does not fit"),
])
def test_errors_have_the_commands_message_and_kind(folder, capsys, call, kind, text):
    with pytest.raises(freight.CommandError, match=text) as caught:
        call()
    assert caught.value.kind == kind and not str(caught.value).startswith("freight: error")
    assert "freight: error" not in capsys.readouterr().err
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.kind, again.exit_code, str(again)) == (kind, caught.value.exit_code, str(caught.value))


def test_progress_is_shown_as_it_appears(folder, capsys):
    freight.train("digits", model="mlp", epochs=2, max_steps=40, output_dir="run/shown")
    assert "epoch 1/" in capsys.readouterr().err


@pytest.mark.parametrize("silent", [{"progress": False}, {"verbose": 0}], ids=str)
def test_nothing_is_shown_where_a_program_says_so(folder, capsys, silent):
    model = freight.train("table.csv", target="price", model="linear", output_dir="run/silent", overwrite=True, **silent)["model"]
    freight.train("digits", model="mlp", max_steps=3, output_dir="run/silent-net", overwrite=True, **silent)
    assert freight.predict(model, "table.csv", **silent) and freight.eval(model, **silent) and freight.verify(model, **silent)
    with freight.serve(model, port=0, **silent):
        pass
    assert freight.data.info("digits", **silent) and freight.models.show("lenet", **silent)
    shown = capsys.readouterr()
    assert "freight:" not in shown.out and [line for line in shown.err.splitlines() if "warning: " not in line] == []
    freight.predict(model, "table.csv")
    assert "200" in capsys.readouterr().err  # the summary
    assert "epoch 1" in (folder / "run/silent-net/log.txt").read_text()


def test_commands_of_a_group_are_functions_of_a_module(folder):
    shown = freight.models.show("lenet", num_classes=3)
    assert shown["parameters"] > 10_000 and shown["flops"] > 0 and len(shown["layers"]) > 5 and shown["spec"]
    found = freight.data.info("digits")
    assert {"train", "test"} <= set(found)
    assert freight.data.info("table.csv", target="price") and isinstance(freight.data.list(), list)
    with pytest.raises(TypeError, match=r"data.info\(\) got an unexpected keyword argument 'targt'; did you mean target\?"):
        freight.data.info("digits", targt=1)
    assert list(inspect.signature(freight.data.info).parameters)[0] == "name"


def test_an_interrupt_stops_the_run_and_keeps_it(folder):
    program = """
import freight
try:
    freight.train("digits", model="mlp", epochs=10000, output_dir="run/stopped")
except KeyboardInterrupt:
    print("interrupted")
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    for line in child.stderr:
        if line.startswith("epoch 1/"):
            break
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out == "interrupted\n" and child.returncode == 0
    assert list((folder / "run/stopped/checkpoints").iterdir()), "the run was not saved"


def test_a_server_predicts_until_it_is_closed(folder):
    with freight.serve(["run/linear/model.safetensors"], port=0, quiet=True) as server:  # as serve("...")
        assert server.models == ["linear"] and "running" in repr(server)
        body = json.dumps({"size": 3, "color": "red"}).encode()
        request = urllib.request.Request(server.url + "/predict", body, {"Content-Type": "application/json"})
        assert json.load(urllib.request.urlopen(request, timeout=20))
    assert "closed" in repr(server)
    server.close()
    with pytest.raises(OSError):
        urllib.request.urlopen(server.url + "/v2/health/live", timeout=5)
    with pytest.raises(freight.CommandError, match="missing.safetensors"):
        freight.serve("missing.safetensors", port=0)


def test_devices_start_ranks(folder):
    one = freight.train("digits", model="mlp", shards=2, max_steps=10, output_dir="run/one", quiet=True, progress=False)
    two = freight.train("digits", model="mlp", shards=2, max_steps=10, output_dir="run/two", devices="cpu*2", quiet=True, progress=False)
    assert pathlib.Path(one["model"]).read_bytes()[-1000:] == pathlib.Path(two["model"]).read_bytes()[-1000:]
    assert one["test_loss"] == two["test_loss"]


def test_launch_starts_a_script_as_ranks(folder, capsys):
    (folder / "ranks.py").write_text("""
import os, sys
open(f"rank-{os.environ['FREIGHT_RANK']}", "w").write(" ".join([os.environ["FREIGHT_WORLD_SIZE"], *sys.argv[1:]]))
print("rank", os.environ["FREIGHT_RANK"])
if "fail" in sys.argv and os.environ["FREIGHT_RANK"] == "1":
    raise SystemExit("rank 1 has no data")
""")
    freight.launch("ranks.py", "--epochs", 3, processes=2)
    assert [(folder / f"rank-{r}").read_text() for r in (0, 1)] == ["2 --epochs 3"] * 2
    assert capsys.readouterr().out == "rank 0\n"
    with pytest.raises(freight.CommandError, match="rank 1 .*rank 1 has no data"):
        freight.launch("ranks.py", "fail", processes=2)


def test_launched_scripts_run_by_the_python_of_the_command(folder, monkeypatch, capsys):
    """As torchrun's do, and not by the first python3 of PATH."""
    (folder / "bin").mkdir()
    (folder / "bin/python3").write_text("#!/bin/sh\necho of another environment")
    (folder / "bin/python3").chmod(0o755)
    (folder / "which.py").write_text("import sys\nprint(sys.executable)")
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    freight.launch("which.py")
    assert capsys.readouterr().out.strip() == sys.executable
    installed = folder / "bin/freight"  # by a wheel
    installed.write_text((pathlib.Path(__file__).parents[1] / "command.py").read_text())
    done = subprocess.run([sys.executable, installed, "launch", "which.py"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == sys.executable


def test_a_launched_script_trains_by_the_ranks(folder):
    (folder / "together.py").write_text("""
import freight
freight.train("digits", model="mlp", max_steps=10, shards=2, output_dir="run/together", quiet=True, progress=False)
""")
    freight.launch("together.py", processes=2)
    assert json.loads((folder / "run/together/run.json").read_text())["status"] == "complete"


def test_commands_run_in_threads(folder):
    found = []
    threads = [threading.Thread(target=lambda: found.append(freight.eval("run/net/model.safetensors", quiet=True)["top1"]))
               for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(found)) == 1 and len(found) == 3


def test_a_server_ends_with_the_program(folder):
    program = "import freight; s = freight.serve('run/linear/model.safetensors', port=0, quiet=True); print(s._command.process.pid)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=folder, timeout=60)
    for _ in range(100):
        if not os.path.exists(f"/proc/{int(done.stdout)}"):
            return
        time.sleep(0.1)
    raise AssertionError("the server still runs")


def test_findings_in_data_are_the_result(tmp_path, capfd):
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu".split()
    rows = [("a" if i % 2 else "b", " ".join(words[(i * k) % 12] for k in range(1, 9)) + f" {i} {i * i}") for i in range(40)]
    for name, part in (("train", rows), ("test", [*rows[:3], ("a", "quite another text of many words"), ("b", "and one more of them in here")])):
        (tmp_path / f"{name}.csv").write_text("label,text\n" + "".join(f"{label},{text}\n" for label, text in part))
    found = freight.data.check(tmp_path)
    assert not found["ok"] and len(found["leaks"]) == 3
    images = tmp_path / "images"
    for part in ("train", "val"):
        for name in "ab":
            (images / part / name).mkdir(parents=True)
            for i in range(4):
                (images / part / name / f"{i}.ppm").write_bytes(b"P6 2 2 255\n" + bytes(range(i, i + 12)))
    capfd.readouterr()
    assert freight.data.verify(images, progress=False)["ok"]
    (images / "train/a/bad.png").write_bytes(b"no image")
    found = freight.data.verify(images, progress=False)
    assert not found["ok"] and "bad.png" in str(found["bad"])
    assert capfd.readouterr().err == ""
    with pytest.raises(freight.CommandError, match="no such|does not exist|not found|there is no"):
        freight.data.check(tmp_path / "nothing")


def test_predictions_that_are_nan_are_named(tmp_path, capfd):
    net = freight.nn.Sequential(freight.nn.Linear(3, 4), freight.nn.BatchNorm1d(4), freight.nn.Linear(4, 2))
    numpy.save(tmp_path / "x.npy", numpy.ones(3, "f4"))
    for variance in (1.0, -1.0):
        net[1].running_var = freight.full(4, variance)
        net.eval().save(tmp_path / "net.safetensors", input_shape=(3,))
        capfd.readouterr()
        assert len(freight.predict(tmp_path / "net.safetensors", tmp_path / "x.npy", quiet=True)) == 1
        assert ("the model gives" in capfd.readouterr().err) == (variance < 0)
