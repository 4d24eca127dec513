"""Trains a small CNN on MNIST by fit, and loads it again: mnist_fit.py [DATA], after `freight data get mnist`."""
import argparse

import freight as fr
from freight import nn


def read(data, most=None):
    """Images u8 (N, 1, 28, 28) and classes of both splits, at most so many of each."""
    return [(x[:most], y[:most]) for x, y in fr.load_data(data)[:2]]


def block(channels, width, kernel, **settings):
    return nn.Conv2d(channels, width, kernel, bias=False, init="he_normal", **settings), nn.BatchNorm2d(width), nn.ReLU()


def network():
    """`convnet`, which `freight train --data mnist` trains."""
    return nn.Sequential(*block(1, 8, 5, stride=2, padding=2), *block(8, 32, 3, stride=2, padding=1), *block(32, 32, 3),
                         nn.AdaptiveAvgPool2d(5), nn.Flatten(), nn.Linear(800, 10))


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="?", default="mnist", help="a built-in data set or a folder")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--samples", type=int, help="read the first so many images (default: all)")
    return parser.parse_args()


if __name__ == "__main__":
    given = options()
    train, test = read(given.data, given.samples)
    net = network()
    history = net.fit(*train, validation_data=test, epochs=given.epochs, lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4,
                      decay_norm_bias=False, lr_scheduler="onecycle")
    print(f"{history.samples_per_second:,.0f} samples/s")
    net.save("mnist.safetensors")  # also for `freight eval`, `serve` and `export`
    print(fr.load("mnist.safetensors").evaluate(*test))
