"""Writes the files of torch_file_test.cpp with PyTorch: make_files.py FOLDER. The tar format, which torch 0.1 wrote, is made
by its definition. expected.json has the values: name -> [dtype of Freight, shape, numbers]."""
import collections
import io
import json
import pickle
import struct
import sys
import tarfile

import torch

NAMES = {torch.float8_e4m3fn: "f16", torch.float8_e5m2: "f16", torch.bfloat16: "bf16", torch.bool: "bool",
         torch.float16: "f16", torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.int32: "i32",
         torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.uint16: "u16"}
UNTYPED = (torch.uint16, torch.float8_e4m3fn, torch.float8_e5m2)  # have no storage class of their own


def tensors():
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    out = collections.OrderedDict(base=base, transposed=base.permute(2, 0, 1), part=base[1, :, 1:3],
                                  every_other=base.reshape(-1)[1::2], expanded=torch.tensor([7.0]).expand(2, 3),
                                  channels_last=torch.arange(16.0).reshape(1, 2, 2, 4).to(memory_format=torch.channels_last),
                                  scalar=torch.tensor(2.5), empty=torch.zeros(0, 3),
                                  parameter=torch.nn.Parameter(torch.tensor([1.0, -1.0])),
                                  flags=torch.tensor([True, False, True]))
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8):
        out[str(dtype).removeprefix("torch.")] = torch.tensor([1, -2, 3]).to(dtype)
    out["uint8"] = torch.tensor([0, 255], dtype=torch.uint8)
    out["uint16"] = torch.tensor([1, 65535], dtype=torch.int32).to(torch.uint16)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        out[str(dtype).removeprefix("torch.")] = torch.tensor([0.0, 0.5, -1.75, 448.0, 2.0**-9]).to(dtype)[1:]
    return out


def typed(all_tensors):
    return collections.OrderedDict((k, v) for k, v in all_tensors.items() if v.dtype not in UNTYPED)


class TarPickler(pickle.Pickler):
    """Tensors stand for their key."""

    def persistent_id(self, value):
        return str(id(value)) if isinstance(value, torch.Tensor) else None


def save_tar(content, path):
    storages, members, roots = io.BytesIO(), {}, {}
    for t in content.values():
        storage = t.storage()
        roots.setdefault(storage.data_ptr(), storage)
    pickle.dump(len(roots), storages, protocol=2)
    for key, storage in roots.items():
        pickle.dump((key, "cpu", getattr(torch, type_name(storage.dtype) + "Storage")), storages, protocol=2)
        whole = torch.tensor([], dtype=storage.dtype).set_(storage)
        storages.write(struct.pack("<q", len(storage)) + whole.numpy().tobytes())
    # One view of a storage: the first four elements of the first.
    first = next(iter(roots))
    pickle.dump([(1, first, 2, 4)], storages, protocol=2)
    out = io.BytesIO()
    pickle.dump(len(content) + 1, out, protocol=2)

    def put(key, storage, kind, t):
        pickle.dump((key, storage, getattr(torch, kind + "Tensor")), out, protocol=2)
        out.write(struct.pack("<ii", t.dim(), 0) + struct.pack(f"<{t.dim()}q", *t.shape))
        out.write(struct.pack(f"<{t.dim()}q", *t.stride()) + struct.pack("<q", t.storage_offset()))

    for t in content.values():
        put(id(t), t.storage().data_ptr(), type_name(t.dtype), t)
    view = torch.zeros(4)
    content = collections.OrderedDict(content, view=view)
    put(id(view), 1, "Float", view)
    members["storages"], members["tensors"] = storages.getvalue(), out.getvalue()
    main = io.BytesIO()
    TarPickler(main, protocol=2).dump(content)
    members["pickle"] = main.getvalue()
    members["sys_info"] = pickle.dumps({"protocol_version": 1000, "little_endian": True}, protocol=2)
    with tarfile.open(path, "w:", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def type_name(dtype):
    return {torch.float32: "Float", torch.float64: "Double", torch.int64: "Long", torch.int32: "Int"}[dtype]


def main(folder):
    content = tensors()
    torch.save(content, f"{folder}/zip.pth")
    torch.save(typed(content), f"{folder}/legacy.pth", _use_new_zipfile_serialization=False)
    sgd = torch.optim.SGD([content["parameter"]], lr=0.1, momentum=0.9)
    checkpoint = {"epoch": 3, "best": 0.5, "note": None, "classes": ["cat", "dog"], "seen": {1, 2}, "raw": b"\x00\xff",
                  "optimizer": sgd.state_dict(), "args": {"lr": 0.1, "size": (3, 224)},
                  "model_state_dict": collections.OrderedDict(("module." + k, v) for k, v in content.items())}
    for protocol in (2, 4):
        torch.save(checkpoint, f"{folder}/checkpoint{protocol}.pth", pickle_protocol=protocol)
    plain = collections.OrderedDict((k, v) for k, v in content.items()
                                    if v.dtype in (torch.float32, torch.float64, torch.int64, torch.int32) and v.numel() > 0)
    save_tar(plain, f"{folder}/tar.pth")
    values = {k: [NAMES[v.dtype], list(v.shape), v.detach().to(torch.float64).reshape(-1).tolist()]
              for k, v in content.items()}
    with open(f"{folder}/expected.json", "w") as f:
        f.write("{\n" + ",\n".join(json.dumps(k) + ": " + json.dumps(v) for k, v in values.items()) + "\n}\n")


main(sys.argv[1])
