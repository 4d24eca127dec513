"""Modules of PyTorch as Freight's, for networks that are made of layers which both have."""
from . import nn
from ._module import Layer, Sequential

# Settings of PyTorch's layers that Freight's lack, with the value that means what these do.
_FIXED = {"padding_mode": "zeros", "return_indices": False, "recompute_scale_factor": None, "batch_first": True, "proj_size": 0,
          "max_norm": None, "scale_grad_by_freq": False, "sparse": False, "bias_k": None, "bias_v": None, "add_zero_attn": False}



def from_torch(module):
    """The torch module with its weights, modes and frozen parameters: a layer that both libraries have, or a torch.nn.Sequential
    of such. A class with a forward of its own is refused: write it with freight.nn, and load its state_dict()."""
    return _converted(module, "")


def _converted(module, path):
    kind = type(module).__name__
    place = f"from_torch: {path or 'the module'} ({kind})"
    if not type(module).__module__.startswith("torch.nn."):
        raise TypeError(f"{place} has a forward of its own: expected layers of torch.nn and Sequential; write the class with "
                        "freight.nn, and load the state_dict()")
    if kind == "Sequential":
        found = Sequential({name: _converted(m, f"{path}.{name}" if path else name) for name, m in module.named_children()})
        if not module.training:
            modes = [(child, child.training) for child in found]
            found.eval()
            for child, mode in modes:
                child.train(mode)
        return found
    cls = getattr(nn, kind, None)
    if not (isinstance(cls, type) and issubclass(cls, Layer)):
        raise TypeError(f"{place} is no layer of freight.nn")
    # BatchNorm always has running statistics, InstanceNorm never.
    fixed = {**_FIXED, "track_running_stats": not kind.startswith("InstanceNorm")}
    for name, needed in fixed.items():
        if name not in cls._keys and getattr(module, name, needed) != needed:
            raise ValueError(f"{place}: expected {name}={needed!r}, got {getattr(module, name)!r}")
    settings = {name: getattr(module, name) for name in cls._keys if name != "bias" and hasattr(module, name)}
    if "bias" in cls._keys:
        settings["bias"] = any("bias" in name for name, _ in module.named_parameters())
    texts = [name for name, value in settings.items() if isinstance(value, str) and isinstance(cls._usual.get(name), int)
             and value not in cls._words.get(cls._keys[name], ())]
    if texts:
        raise ValueError(f"{place}: expected a number for {texts[0]}, got {settings[texts[0]]!r}")
    layer = cls(**settings)
    layer.load_state_dict(module.state_dict())
    frozen = {name for name, p in module.named_parameters() if not p.requires_grad}
    for name, p in layer.named_parameters():
        if name in frozen:
            p.requires_grad = False
    return layer.train(module.training)
