"""How functions and modules of PyTorch are called in Freight: a row each in FUNCTIONS and MODULES, for torch_samples.py.

What has no counterpart raises Missing, whose text the page of results (bench/results/torch-samples.md) shows.
"""
import torch

DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
          torch.bool: "bool", torch.bfloat16: "bf16", torch.float16: "f16", torch.int8: "i8", torch.int16: "i16",
          torch.complex64: "c64", torch.complex128: "c128"}


class Missing(Exception):
    """Freight has nothing that says this."""


def call(function, **arguments):
    return {"call": function, **arguments}


def need(holds, what):
    if not holds:
        raise Missing(what)


def extents(v, default=None):
    """A number, or one per axis: a list of one is a number, an empty one the default."""
    if v is None or (isinstance(v, (tuple, list)) and not v):
        return default
    if isinstance(v, (tuple, list)):
        return v[0] if len(v) == 1 else list(v)
    return v


def pool(function, average=False):
    names = ["x", "kernel_size", "stride", "padding"]
    names += ["ceil_mode", "count_include_pad", "divisor_override"] if average else [
        "dilation", "ceil_mode", "return_indices"]

    def run(a):
        indices = a.get("return_indices", False)
        c = call(function + "_with_indices" if indices else function, x=a["x"], kernel=extents(a["kernel_size"]),
                 stride=extents(a.get("stride"), 0), padding=extents(a.get("padding"), 0),
                 ceil_mode=a.get("ceil_mode", False))
        if average:
            c["count_include_pad"] = a.get("count_include_pad", True)
            if a.get("divisor_override") is not None:
                c["divisor"] = a["divisor_override"]
        else:
            c["dilation"] = extents(a.get("dilation", 1))
        return {**c, "results": [0, 1]} if indices else c
    return names, run


def adaptive(a):
    size = a["output_size"]
    if isinstance(size, (tuple, list)):
        size = [n if n is not None else a["x"].shape[i - 2] for i, n in enumerate(size)]
    elif size is None:
        size = list(a["x"].shape[-2:])
    return call("adaptive_avg_pool2d", x=a["x"], output=size)


def filled(given, value, shape, like):
    """A weight or bias, or what stands for one that is left out."""
    if given is not None:
        return given
    return call("full", shape=list(shape), value=float(value), dtype=DTYPES[like.dtype])


def batch_norm(a):
    x = a["x"]
    vector = x.dim() == 1 and x.numel() == 0  # a batch without channels
    channels = [0 if vector or x.dim() < 2 else x.shape[1]]
    c = {"x": call("reshape", x=x, shape=[0, 0]) if vector else x, "scale": filled(a.get("weight"), 1, channels, x),
         "shift": filled(a.get("bias"), 0, channels, x), "eps": a.get("eps", 1e-5)}
    if a.get("training", False):
        y = {**call("batch_norm", **c), "result": 0}
    else:
        y = call("batch_norm_inference", **c, mean=a["running_mean"], variance=a["running_var"])
    return call("reshape", x=y, shape=[0]) if vector else y


def layer_norm(a):
    x, shape = a["x"], a["normalized_shape"]
    return call("layer_norm", x=x, scale=filled(a.get("weight"), 1, shape, x),
                shift=filled(a.get("bias"), 0, shape, x), eps=a.get("eps", 1e-5))


def group_norm(a):
    x = a["x"]
    channels = [x.shape[1] if x.dim() > 1 else 0]
    return call("group_norm", x=x, groups=a["num_groups"], scale=filled(a.get("weight"), 1, channels, x),
                shift=filled(a.get("bias"), 0, channels, x), eps=a.get("eps", 1e-5))


OLD = ["size_average", "reduce"]  # of losses, behind the target


def old(a):
    need(a.get("size_average") is None and a.get("reduce") is None, "`size_average`, `reduce`")
    return a.get("reduction", "mean")


def cross_entropy(a):
    c = call("cross_entropy", logits=a["x"], target=a["target"], label_smoothing=a.get("label_smoothing", 0.0),
             reduction=old(a))
    if not a["target"].is_floating_point() or a.get("ignore_index", -100) != -100:
        c["ignore_index"] = a.get("ignore_index", -100)
    return with_weights(c, a, "weight")


def with_weights(c, a, *names):
    c.update({name: a[name] for name in names if a.get(name) is not None})
    return c


def nll_loss(a):
    return with_weights(call("nll_loss", log_probabilities=a["x"], target=a["target"], reduction=old(a),
                             ignore_index=a.get("ignore_index", -100)), a, "weight")


def pair_loss(function, *more):
    def run(a):
        need(a.get("weight") is None, "`weight` of classes or elements in a loss")
        c = call(function, a=a["x"], b=a["target"], reduction=old(a))
        c.update({k: a[k] for k in more if k in a})
        return c
    return run


def kl_div(a):
    reduction = old(a)
    c = call("kl_div", log_probabilities=a["x"], target=a["target"], log_target=a.get("log_target", False),
             reduction="sum" if reduction == "batchmean" else reduction)
    return call("divide", a=c, b=float(a["x"].shape[0])) if reduction == "batchmean" and a["x"].dim() else c


def bce(a):
    return with_weights(call("bce_with_logits", logits=a["x"], target=a["target"], reduction=old(a)), a, "weight",
                        "pos_weight")


def softmax(function):
    def run(a):
        need(a.get("dim") is not None, "softmax without an axis")
        need(not isinstance(a["dim"], bool), "a truth value for an axis (C++ does not compile it)")
        x = a["x"]
        if a.get("dtype") is not None:
            need(a["dtype"] in DTYPES and x.dtype in DTYPES, "complex numbers")
            x = call("cast", x=x, dtype=DTYPES[a["dtype"]])
        return call(function, x=x, axis=a["dim"])
    return run


def flat(x):
    return call("reshape", x=x, shape=[-1])


def take_along_dim(a):
    x, index, axis = a["x"], a["indices"], a.get("dim")
    if axis is None:
        return call("gather_elements", x=flat(x), index=flat(index), axis=0)
    if x.dim() and x.dim() == index.dim():  # the other axes broadcast, and indices may count from the back
        axis, size = axis % x.dim(), x.shape[axis]
        rest = torch.broadcast_shapes(*[[1 if i == axis else n for i, n in enumerate(t.shape)] for t in (x, index)])
        x, index = (
            call("broadcast_to", x=t, shape=[t.shape[axis] if i == axis else n for i, n in enumerate(rest)])
            if any(n != rest[i] for i, n in enumerate(t.shape) if i != axis) else t for t in (x, index))
        if bool((a["indices"] < 0).any()):
            index = call("where", condition=call("less", a=index, b=0), a=call("add", a=index, b=size), b=index)
    return call("gather_elements", x=x, index=index, axis=axis)


def index_add(a):
    x, axis = a["x"], a["dim"]
    size = x.shape[axis] if x.dim() else 1
    part = call("scatter_add", index=a["index"], axis=axis, size=size,
                updates=call("multiply", a=a["source"], b=a.get("alpha", 1)))
    return call("add", a=x, b=part)


def index_put(a):
    need(all(i is not None for i in a["indices"]), "indices of index_put that are left out")
    return call("index_put", x=a["x"], indices=list(a["indices"]), updates=a["values"], accumulate=a.get("accumulate", False))


def index_fill(a):
    x, axis = a["x"], a["dim"]
    need(x.dim() > 0, "an axis of a tensor of rank 0")
    shape = [a["index"].numel() if i == axis % x.dim() else n for i, n in enumerate(x.shape)]
    updates = call("broadcast_to", x=a["value"], shape=shape) if isinstance(a["value"], torch.Tensor) else call(
        "full", shape=shape, value=a["value"], dtype=DTYPES[x.dtype])
    return call("scatter", x=x, index=flat(a["index"]), updates=updates, axis=axis)


def select_scatter(a):
    axis, index = a["dim"], a["index"]
    start = index + a["x"].shape[axis] if index < 0 else index
    return call("update_slice", x=a["x"], updates=call("unsqueeze", x=a["src"], axis=axis), start=start, axis=axis)


def slice_scatter(a):
    axis = a.get("dim", 0)
    places = range(a["x"].shape[axis])[slice(a.get("start"), a.get("end"), a.get("step", 1))]
    return call("scatter", x=a["x"], index=torch.tensor(list(places), dtype=torch.int64), updates=a["src"], axis=axis)


def masked_select(a):
    shape = list(torch.broadcast_shapes(a["x"].shape, a["mask"].shape))
    x, mask = (call("broadcast_to", x=t, shape=shape) if list(t.shape) != shape else t for t in (a["x"], a["mask"]))
    need(len(shape) > 0, "an axis of a tensor of rank 0")
    return {"call": "x[...]", "x": x, "items": [mask]}


def unique(a):
    results = [0] + [2] * a.get("return_inverse", False) + [3] * a.get("return_counts", False)
    return {**call("unique", x=a["x"], axis=a.get("dim")), "results": results}


def embedding(a):
    need(not a.get("sparse"), "`sparse` of an embedding")
    padding = a.get("padding_idx")
    if padding is not None and padding < 0:
        padding += a["x"].shape[0]
    return call("embedding", index=a["index"], table=a["x"], padding_idx=-1 if padding is None else padding,
                max_norm=a.get("max_norm"), norm_type=a.get("norm_type", 2.0), scale_grad_by_freq=a.get("scale_grad_by_freq", False))


def one_hot(a):
    depth = a.get("num_classes", -1)
    return call("one_hot", index=a["x"], depth=int(a["x"].max()) + 1 if depth == -1 else depth, dtype="i64")


def bincount(a):
    x = a["x"]
    size = max(a.get("minlength", 0), int(x.max()) + 1 if x.numel() else 0)
    if a.get("weights") is not None:
        return call("scatter_add", index=x, updates=a["weights"], size=size)
    return call("bincount", index=x, size=size)


def flip(a):
    y = a["x"]
    for axis in a["dims"] if isinstance(a["dims"], (tuple, list)) else [a["dims"]]:
        y = call("flip", x=y, axis=axis)
    return y


def narrow(a):
    start = a["start"]
    if isinstance(start, torch.Tensor):
        need(start.numel() == 1 and start.dtype == torch.int64, "`start` of narrow as a tensor of several numbers")
        start = int(start)
    return call("narrow", x=a["x"], axis=a["dim"], start=start, length=a["length"])


def getitem(a):
    items = a["index"] if isinstance(a["index"], tuple) else (a["index"],)
    out = []
    for i in items:
        if isinstance(i, slice):
            out.append({"slice": [i.start, i.stop, i.step if i.step is not None else 1]})
        elif i is Ellipsis:
            out.append({"ellipsis": True})
        elif isinstance(i, list):
            out.append(torch.tensor(i))
        else:
            out.append(i)
    return {"call": "x[...]", "x": a["x"], "items": out}


def ordered(function, results):
    def run(a):
        c = call(function, x=a["x"], axis=a.get("dim", -1),
                 order="descending" if a.get("descending", False) else "ascending")
        return {**c, "results": list(range(results))}
    return run


def topk(a):
    c = call("topk", x=a["x"], k=a["k"], axis=a.get("dim", -1),
             order="descending" if a.get("largest", True) else "ascending")
    # Which of equal numbers is taken PyTorch leaves open.
    return {**c, "results": [0, 1] if a["x"].unique().numel() == a["x"].numel() else [0]}


def cumulative(function):
    return lambda a: call(function, x=in_dtype(a), axis=a["dim"])


def in_dtype(a):
    """The operand in the type that a reduction is asked to compute in."""
    if a.get("dtype") is None:
        return a["x"]
    need(a["dtype"] in DTYPES and a["x"].dtype in DTYPES, "complex numbers")
    return call("cast", x=a["x"], dtype=DTYPES[a["dtype"]])


def reduction(function, **fixed):
    def run(a):
        axes = a.get("dim")
        if isinstance(axes, bool):  # the overload whose second argument is `unbiased`
            a, axes = {**a, "unbiased": axes}, None
        axes = [] if axes is None else list(axes) if isinstance(axes, (tuple, list)) else axes
        c = call(function, x=in_dtype(a), axes=axes, keep=a.get("keepdim", False), **fixed)
        if function in ("var", "stddev"):
            correction = a.get("correction", 1 if a.get("unbiased", True) else 0)
            c["correction"] = 1.0 if correction is None else float(correction)
        return c
    return run


def vector_norm(a):
    axes = a.get("dim")
    axes = [] if axes is None else list(axes) if isinstance(axes, (tuple, list)) else axes
    return call("vector_norm", x=in_dtype(a), axes=axes, ord=float(a.get("ord", 2)), keep=a.get("keepdim", False))


def arg(function):
    def run(a):
        x = a["x"] if a.get("dim") is not None else flat(a["x"])
        need(a.get("dim") is not None or not a.get("keepdim", False), "`keepdim` without an axis")
        return call(function, x=x, axis=a["dim"] if a.get("dim") is not None else 0, keep=a.get("keepdim", False))
    return run


LOSS = ["x", "target", *OLD, "reduction"]
REDUCE = ["x", "dim", "keepdim", "dtype"]
# By name in op_db: the names of the parameters in order, and the call.
FUNCTIONS = {
    "nn.functional.max_pool1d": pool("max_pool1d"), "nn.functional.max_pool2d": pool("max_pool2d"),
    "nn.functional.avg_pool1d": pool("avg_pool1d", True), "nn.functional.avg_pool2d": pool("avg_pool2d", True),
    "nn.functional.adaptive_avg_pool2d": (["x", "output_size"], adaptive),
    "nn.functional.batch_norm": (
        ["x", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"], batch_norm),
    "nn.functional.layer_norm": (["x", "normalized_shape", "weight", "bias", "eps"], layer_norm),
    "nn.functional.group_norm": (["x", "num_groups", "weight", "bias", "eps"], group_norm),
    "softmax": (["x", "dim", "dtype"], softmax("softmax")),
    "log_softmax": (["x", "dim", "dtype"], softmax("log_softmax")),
    "nn.functional.cross_entropy": (
        ["x", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"],
        cross_entropy),
    "nn.functional.nll_loss": (
        ["x", "target", "weight", "size_average", "ignore_index", "reduce", "reduction"], nll_loss),
    "nn.functional.mse_loss": ([*LOSS, "weight"], pair_loss("mse_loss")),
    "nn.functional.l1_loss": ([*LOSS, "weight"], pair_loss("l1_loss")),
    "nn.functional.smooth_l1_loss": ([*LOSS, "beta"], pair_loss("smooth_l1_loss", "beta")),
    "nn.functional.huber_loss": (["x", "target", "reduction", "delta", "weight"], pair_loss("huber_loss", "delta")),
    "nn.functional.kl_div": ([*LOSS, "log_target"], kl_div),
    "nn.functional.binary_cross_entropy_with_logits": (
        ["x", "target", "weight", *OLD, "reduction", "pos_weight"], bce),
    "gather": (["x", "dim", "index", "sparse_grad"],
               lambda a: call("gather_elements", x=a["x"], index=a["index"], axis=a["dim"])),
    "take_along_dim": (["x", "indices", "dim"], take_along_dim),
    "index_select": (["x", "dim", "index"], lambda a: call("gather", x=a["x"], index=a["index"], axis=a["dim"])),
    "take": (["x", "index"], lambda a: call("x[...]", x=flat(a["x"]), items=[a["index"]])),
    "index_put": (["x", "indices", "values", "accumulate"], index_put),
    "index_copy": (["x", "dim", "index", "source"], lambda a: call(
        "scatter", x=a["x"], index=flat(a["index"]), updates=a["source"], axis=a["dim"])),
    "index_fill": (["x", "dim", "index", "value"], index_fill),
    "select_scatter": (["x", "src", "dim", "index"], select_scatter),
    "slice_scatter": (["x", "src", "dim", "start", "end", "step"], slice_scatter),
    "masked_select": (["x", "mask"], masked_select),
    "unique": (["x", "sorted", "return_inverse", "return_counts", "dim"], unique),
    "index_add": (["x", "dim", "index", "source", "alpha"], index_add),
    "nn.functional.embedding": (
        ["x", "index", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"], embedding),
    "nn.functional.one_hot": (["x", "num_classes"], one_hot),
    "bincount": (["x", "weights", "minlength"], bincount),
    "select": (["x", "dim", "index"], lambda a: call("select", x=a["x"], axis=a["dim"], index=a["index"])),
    "narrow": (["x", "dim", "start", "length"], narrow),
    "flip": (["x", "dims"], flip),
    "__getitem__": (["x", "index"], getitem),
    "masked_fill": (["x", "mask", "value"], lambda a: call("where", condition=a["mask"], a=a["value"], b=a["x"])),
    "where": (["x", "condition", "other"], lambda a: call("where", condition=a["condition"], a=a["x"], b=a["other"])),
    "sort": (["x", "dim", "descending", "stable"], ordered("sort", 2)),
    "argsort": (["x", "dim", "descending", "stable"], ordered("argsort", 1)),
    "topk": (["x", "k", "dim", "largest", "sorted"], topk),
    "cumsum": (["x", "dim", "dtype"], cumulative("cumsum")),
    "cumprod": (["x", "dim", "dtype"], cumulative("cumprod")),
    "sum": (REDUCE, reduction("sum")), "mean": (REDUCE, reduction("mean")),
    "amax": (REDUCE, reduction("max")), "amin": (REDUCE, reduction("min")), "prod": (REDUCE, reduction("prod")),
    "var": (["x", "dim", "unbiased", "keepdim", "correction"], reduction("var")),
    "std": (["x", "dim", "unbiased", "keepdim", "correction"], reduction("stddev")),
    "logsumexp": (["x", "dim", "keepdim"], reduction("logsumexp")),
    "linalg.vector_norm": (["x", "ord", "dim", "keepdim", "dtype"], vector_norm),
    "argmax": (["x", "dim", "keepdim"], arg("argmax")), "argmin": (["x", "dim", "keepdim"], arg("argmin")),
}


# Arguments that settle what PyTorch leaves open: the order of unique elements.
SETTLED = {"unique": {"sorted": True}}


def without_gradient(name, names):
    """Inputs that are no operands of a gradient, in PyTorch: statistics, weights of losses, what is sorted out."""
    fixed = {"running_mean", "running_var"} | ({"weight", "pos_weight"} if "target" in names else set())
    return fixed | ({"x"} if name == "unique" else set())


def layer(kind, **settings):
    return {"layer": kind, "settings": {k: v for k, v in settings.items() if v is not None}}


def pool_layer(kind, function):
    """With return_indices a function, since a layer has one result."""
    def run(a):
        c = FUNCTIONS["nn.functional." + function][1]({**a, "x": None})
        if a.get("return_indices", False):
            return c
        return layer(kind, **{k: v for k, v in c.items() if k not in ("call", "x")})
    return run


def conv_layer(kind):
    def run(a):
        padding = {"same": -1, "valid": 0}[a["padding"]] if isinstance(a["padding"], str) else extents(a["padding"])
        return layer(kind, **{"in": a["in_channels"]}, out=a["out_channels"], kernel=extents(a["kernel_size"]),
                     stride=extents(a["stride"]), padding=padding, dilation=extents(a["dilation"]), groups=a["groups"],
                     bias=a["bias"], padding_mode=a["padding_mode"])
    return run


def batch_norm_layer(kind):
    def run(a):
        return layer(kind, channels=a["num_features"], eps=a["eps"], momentum=-1.0 if a["momentum"] is None else a["momentum"],
                     affine=a["affine"], bias=a["bias"], running=a["track_running_stats"])
    return run


def layer_norm_layer(a):
    return layer("LayerNorm", shape=extents(a["normalized_shape"]), eps=a["eps"], affine=a["elementwise_affine"], bias=a["bias"])


def group_norm_layer(a):
    return layer("GroupNorm", groups=a["num_groups"], channels=a["num_channels"], eps=a["eps"], affine=a["affine"],
                 bias=a["bias"])


def embedding_layer(a):
    need(not a["sparse"], "`sparse` of an embedding")
    return layer("Embedding", rows=a["num_embeddings"], width=a["embedding_dim"], padding_idx=a["padding_idx"],
                 max_norm=a["max_norm"], norm_type=a["norm_type"], scale_grad_by_freq=a["scale_grad_by_freq"])


def softplus_layer(a):
    return layer("Softplus", beta=a["beta"], threshold=a["threshold"])


def softmax_layer(a):
    return layer("Softmax", axis={"not compiled": "a truth value for an axis"} if isinstance(a["dim"], bool) else a["dim"])


def adaptive_layer(a):
    size = a["output_size"]
    size = tuple(n or 0 for n in size) if isinstance(size, tuple) else size or 0
    return layer("AdaptiveAvgPool2d", output=extents(size))


def linear_layer(a):
    return layer("Linear", **{"in": a["in_features"]}, out=a["out_features"], bias=a["bias"])


def loss_module(function):
    """A loss is a function in Freight: the module's settings are arguments of it."""
    return lambda a, inputs: FUNCTIONS["nn.functional." + function][1](
        {**a, "x": inputs[0], "target": inputs[1]})


MODULES = {
    "MaxPool2d": pool_layer("MaxPool2d", "max_pool2d"), "AvgPool2d": pool_layer("AvgPool2d", "avg_pool2d"),
    "AdaptiveAvgPool2d": adaptive_layer,
    "BatchNorm1d": batch_norm_layer("BatchNorm1d"), "BatchNorm2d": batch_norm_layer("BatchNorm2d"),
    "LayerNorm": layer_norm_layer, "GroupNorm": group_norm_layer, "Embedding": embedding_layer,
    "Linear": linear_layer, "Conv1d": conv_layer("Conv1d"), "Conv2d": conv_layer("Conv2d"),
    "ReLU": lambda a: layer("ReLU"), "SiLU": lambda a: layer("SiLU"), "Tanh": lambda a: layer("Tanh"),
    "Sigmoid": lambda a: layer("Sigmoid"), "Softsign": lambda a: layer("Softsign"), "Softplus": softplus_layer,
    "GELU": lambda a: layer("GELU", approximate="tanh" if a["approximate"] == "tanh" else "none"),
    "LeakyReLU": lambda a: layer("LeakyReLU", slope=a["negative_slope"]),
    "ELU": lambda a: layer("ELU", alpha=a["alpha"]), "Softmax": softmax_layer,
}
LOSSES = {
    "CrossEntropyLoss": "cross_entropy", "NLLLoss": "nll_loss", "MSELoss": "mse_loss", "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss", "HuberLoss": "huber_loss", "KLDivLoss": "kl_div",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
}
