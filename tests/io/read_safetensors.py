"""Reads a safetensors file by the format's definition alone, and checks what SafeTensorsTest.PythonReadsIt wrote.
usage: read_safetensors.py FILE; fails with an assertion. Format: u64 length, JSON header, tensors without gaps."""
import json
import struct
import sys

import numpy

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}


def load(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    body, at, tensors = data[8 + length :], 0, {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == at, f"a gap or an overlap before {name}"
        tensors[name] = numpy.frombuffer(body[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        at = end
    assert at == len(body), f"{len(body) - at} bytes behind the last tensor"
    return metadata, tensors


metadata, tensors = load(sys.argv[1])
assert all(isinstance(v, str) for v in metadata.values())
assert metadata["classes"] == "a\nb"
assert tensors["b.bias"].tolist() == [1, 2, 3]
assert tensors["count"].item() == 1 << 40
small = tensors["small"]
assert small.dtype == "float16" and small[0] == 0.25 and small[2] == 65504
assert tensors["none"].shape == (0, 4)
assert tensors["small"].dtype == numpy.float16 and tensors["small"][0] == 0.25 and tensors["small"][2] == 65504
