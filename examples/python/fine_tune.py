"""Fine-tunes a network of the zoo on few images, with a new head: fine_tune.py DIRECTORY, the folder of `freight data get cifar10`.

The network is trained on eight classes of CIFAR-10 first, as a stand-in for pretrained weights; then it learns the other two,
ships and trucks, from a few images each: the head alone, then all layers at a lower rate.
"""
import argparse
import pathlib

import numpy as np

import freight as fr
from freight import nn


def read(directory, names, most=None):
    """Images u8 (N, 3, 32, 32) and classes."""
    records = np.concatenate([np.fromfile(directory / f"{name}.bin", "u1").reshape(-1, 3073) for name in names])[:most]
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype("i8")


def chosen(images, labels, first, last, each=None):
    """The classes from first to before last, numbered from 0; at most `each` images of one."""
    rows = np.concatenate([np.flatnonzero(labels == c)[:each] for c in range(first, last)])
    return images[rows], labels[rows] - first


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("directory", type=pathlib.Path)
    arguments.add_argument("--epochs", type=int, default=3, help="of each of the three stages")
    arguments.add_argument("--samples", type=int, help="read the first so many images (default: all)")
    arguments.add_argument("--each", type=int, default=100, help="images per new class")
    options = arguments.parse_args()
    images, labels = read(options.directory, [f"data_batch_{i}" for i in range(1, 6)], options.samples)
    test_images, test_labels = read(options.directory, ["test_batch"], options.samples)

    fr.random.seed(0)
    net = fr.models.get_model("resnet20", num_classes=8)
    net.fit(*chosen(images, labels, 0, 8), epochs=options.epochs, batch_size=128, lr=0.2, momentum=0.9, weight_decay=5e-4, lr_scheduler="onecycle")
    net.save("pretrained.safetensors")

    # From here on as with any stored network: another head, of which the names of the layers tell the place.
    net = fr.load("pretrained.safetensors")
    print("layers:", ", ".join(name for name, _ in net.named_children()))
    net.fc = nn.Linear(net.fc.in_features, 2)
    few = chosen(images, labels, 8, 10, options.each)
    test = chosen(test_images, test_labels, 8, 10)

    net.requires_grad_(False)  # the head alone is trained
    net.fc.requires_grad_(True)
    net.fit(*few, validation_data=test, epochs=2 * options.epochs, batch_size=16, lr=0.05, momentum=0.9)
    print(f"head alone: accuracy {net.evaluate(*test)['accuracy']:.3f}")

    net.requires_grad_(True)
    net.fit(*few, validation_data=test, epochs=2 * options.epochs, batch_size=16, optimizer="adamw", lr=2e-4, lr_scheduler="cosine")
    print(f"all layers: accuracy {net.evaluate(*test)['accuracy']:.3f}")

    scratch = fr.models.get_model("resnet20", num_classes=2)
    scratch.fit(*few, epochs=4 * options.epochs, batch_size=16, lr=0.05, momentum=0.9, verbose=0)
    print(f"from scratch: accuracy {scratch.evaluate(*test)['accuracy']:.3f}")
