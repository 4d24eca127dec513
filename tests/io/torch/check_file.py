"""check_file.py OURS THEIRS: PyTorch reads both with weights_only=True, and finds the same tensors in them."""
import sys

import torch

ours, theirs = (torch.load(path, weights_only=True) for path in sys.argv[1:])
assert list(ours) == list(theirs), (list(ours), list(theirs))
for name, expected in theirs.items():
    got = ours[name]
    float8 = expected.dtype in (torch.float8_e4m3fn, torch.float8_e5m2)  # which Freight has as f16
    assert got.dtype == (torch.float16 if float8 else expected.dtype), (name, got.dtype)
    assert got.shape == expected.shape and got.is_contiguous(), name
    assert torch.equal(got, expected.to(got.dtype)), name
