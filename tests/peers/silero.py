#!/usr/bin/env python3
"""Writes silero.json: what NumPy computes with silero_vad_16k.safetensors, for real_models_test.cpp.

The expected outputs that lie beside that file are those of silero_vad_16k_op15.onnx, whose weights are others (of another
training). --check computes them by the same equations, from the ONNX file's weights, and says how far off they are.
usage: silero.py DIR [--check], DIR as the test's `models`; --check needs the package onnx.
"""
import json
import pathlib
import struct
import sys

import numpy as np

CHUNK, CONTEXT = 512, 64
CONVS = ("conv1", 1), ("conv2", 2), ("conv3", 2), ("conv4", 1)  # with their strides


def safetensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    read = lambda t: np.frombuffer(data[8 + size :][slice(*t["data_offsets"])], np.float32).reshape(t["shape"])
    return {name: read(t).astype(np.float64) for name, t in header.items() if name != "__metadata__"}


def onnx_weights(path):
    import onnx

    found = {t.name: onnx.numpy_helper.to_array(t).astype(np.float64) for t in onnx.load(path).graph.initializer}
    names = {"stft_conv.weight": "model.stft.forward_basis_buffer"}
    for kind in ("weight", "bias"):
        names |= {f"conv{i + 1}.{kind}": f"model.encoder.{i}.reparam_conv.{kind}" for i in range(4)}
        names |= {f"lstm_cell.{kind}_{of}": f"model.decoder.rnn.{kind}_{of}" for of in ("ih", "hh")}
        names[f"final_conv.{kind}"] = f"model.decoder.decoder.2.{kind}"
    return {name: found[of] for name, of in names.items()}


def conv(x, weight, bias, stride, padding):
    """(C, T) -> (K, T')"""
    x = np.pad(x, ((0, 0), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2], 1)[:, ::stride]  # (C, T', kernel)
    return np.einsum("kcw,ctw->kt", weight, windows) + bias[:, None]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def probabilities(w, wav):
    """Of speech, per chunk; and the state at the end."""
    h, c, context, out = np.zeros(128), np.zeros(128), np.zeros(CONTEXT), []
    for chunk in wav.astype(np.float64).reshape(-1, CHUNK):
        x = np.pad(np.concatenate([context, chunk]), (0, CONTEXT), "reflect")[None]
        context = chunk[-CONTEXT:]
        real, imaginary = np.split(conv(x, w["stft_conv.weight"], np.zeros(258), 128, 0), 2)
        x = np.hypot(real, imaginary)
        for name, stride in CONVS:
            x = np.maximum(conv(x, w[f"{name}.weight"], w[f"{name}.bias"], stride, 1), 0)
        gates = w["lstm_cell.weight_ih"] @ x[:, 0] + w["lstm_cell.weight_hh"] @ h
        i, f, g, o = np.split(gates + w["lstm_cell.bias_ih"] + w["lstm_cell.bias_hh"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(sigmoid(w["final_conv.weight"][0, :, 0] @ np.maximum(h, 0) + w["final_conv.bias"])[0])
    return np.array(out), h


def main():
    models = pathlib.Path(sys.argv[1])
    made = np.load(models / "expected" / "silero_vad_16k_op15_synthetic.npz")
    if "--check" in sys.argv:
        got, state = probabilities(onnx_weights(models / "silero_vad_16k_op15.onnx"), made["wav"])
        print("off by", abs(got - made["prob"]).max(), "and", abs(state - made["final_state"][0, 0]).max())
        return
    got, state = probabilities(safetensors(models / "silero_vad_16k.safetensors"), made["wav"])
    rounded = lambda values: [float(f"{v:.8g}") for v in values]
    target = pathlib.Path(__file__).with_suffix(".json")
    target.write_text(json.dumps({"probabilities": rounded(got), "state": rounded(state[:16])}) + "\n")


main()
