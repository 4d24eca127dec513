#!/usr/bin/env python3
"""Writes torchvision_pixels.json: a small picture changed and resized by torchvision, which pixel_ops_test.cpp compares
with. Run by hand when a case is added: python3 torchvision_pixels.py.
"""
import json
import pathlib

import torch
import torchvision.transforms.functional as F
from torchvision.transforms import InterpolationMode
from torchvision.transforms.autoaugment import RandAugment, _apply_op

ROWS, COLUMNS = 8, 9


def picture(rows, columns):
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    planes = [(y * 23 + x * 11) % 256, (y * y * 5 + x * 17 + 40) % 256, (255 - y * 9 - x * x) % 256]
    return torch.stack(planes).to(torch.uint8)


image = picture(ROWS, COLUMNS)

ops, functions, resized = [], [], []
for magnitude in (9, 22):
    space = RandAugment()._augmentation_space(31, (ROWS, COLUMNS))
    for index, (name, (values, signed)) in enumerate(space.items()):
        value = float(values[magnitude]) if values.ndim else 0.0
        for negative in (False, True) if signed else (False,):
            out = _apply_op(image, name, -value if negative else value, InterpolationMode.NEAREST, None)
            ops.append({"op": index, "name": name, "magnitude": magnitude, "negative": negative,
                        "pixels": out.flatten().tolist()})
for name, value in [("hue", 0.1), ("hue", -0.4), ("contrast", 1.3), ("saturation", 0.2), ("brightness", 1.7)]:
    out = getattr(F, f"adjust_{name}")(image, value)
    functions.append({"name": name, "value": value, "pixels": out.flatten().tolist()})
for rows, columns in [(5, 6), (20, 30), (7, 26), (3, 13)]:
    out = F.resize(image.float(), [rows, columns], antialias=True)
    resized.append({"rows": rows, "columns": columns, "pixels": [round(v, 3) for v in out.flatten().tolist()]})

large = picture(24, 25) // 3  # enough pixels for equalize to do something
equalized = {"rows": 24, "columns": 25, "image": large.flatten().tolist(), "pixels": F.equalize(large).flatten().tolist()}

path = pathlib.Path(__file__).with_suffix(".json")
path.write_text(json.dumps({"rows": ROWS, "columns": COLUMNS, "image": image.flatten().tolist(), "ops": ops,
                            "functions": functions, "resized": resized, "equalized": equalized},
                           separators=(",", ":")).replace('{"op"', '\n{"op"') + "\n")
print(len(ops), "operations")
