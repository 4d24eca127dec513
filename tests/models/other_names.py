#!/usr/bin/env python3
"""Writes other_names.json for weight_names_test.cpp: names and shapes of the weights of timm's and Hugging Face's networks
that the zoo has, too. Needs timm, transformers and torchvision; nothing is downloaded."""
import json
import pathlib

import timm
import torch
import torchvision
import transformers

TIMM = {"vgg11": "vgg11", "mobilenet_v2": "mobilenetv2_100", "efficientnet_b0": "efficientnet_b0", "regnet_y_400mf": "regnety_004",
        "convnext_tiny": "convnext_tiny", "vit_b_16": "vit_base_patch16_224", "densenet121": "densenet121",
        "resnext50_32x4d": "resnext50_32x4d", "wide_resnet50_2": "wide_resnet50_2"}
SAME = ("densenet121", "resnext50_32x4d", "wide_resnet50_2")  # no other names: checked here, and not written
RESNET = {"embedding_size": 64, "downsample_in_first_stage": False}


def hugging_face():
    t = transformers
    yield "resnet18", t.ResNetForImageClassification(t.ResNetConfig(
        **RESNET, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000))
    yield "resnet50", t.ResNetForImageClassification(t.ResNetConfig(**RESNET, num_labels=1000))
    yield "regnet_y_400mf", t.RegNetForImageClassification(t.RegNetConfig(
        embedding_size=32, hidden_sizes=[48, 104, 208, 440], depths=[1, 3, 6, 6], groups_width=8, layer_type="y", num_labels=1000))
    yield "convnext_tiny", t.ConvNextForImageClassification(t.ConvNextConfig(num_labels=1000))
    yield "vit_b_16", t.ViTForImageClassification(t.ViTConfig(num_labels=1000))


def names_of(model):
    return {n: list(v.shape) for n, v in model.state_dict().items() if not n.endswith("num_batches_tracked")}


table = {}
with torch.device("meta"):
    for ours, name in TIMM.items():
        table[f"{ours} timm"] = names_of(timm.create_model(name))
        if ours in SAME:
            assert table.pop(f"{ours} timm") == names_of(getattr(torchvision.models, ours)(weights=None)), ours
    for ours, model in hugging_face():
        table[f"{ours} huggingface"] = names_of(model)
text = ",\n".join(f'"{k}": {json.dumps(v, separators=(",", ":"))}' for k, v in table.items())
pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + text + "\n}\n")
