"""What a name of PyTorch, NumPy or Keras that is missing here is called in Freight, for messages of errors."""
import difflib
import functools
import os
import re
import types

from ._core import Array

PACKAGE = {
    "tensor": "freight.asarray", "Tensor": "freight.Array", "from_numpy": "freight.asarray", "array": "freight.asarray", "ndarray": "freight.Array",
    "as_tensor": "freight.asarray", "rand": "freight.random.uniform", "randn": "freight.random.normal", "randint": "freight.random.randint",
    "randperm": "freight.random.permutation", "manual_seed": "freight.random.seed", "cat": "freight.concat", "concatenate": "freight.concat",
    "vstack": "freight.concat", "hstack": "freight.concat", "clamp": "freight.clip", "absolute": "freight.abs", "power": "freight.pow",
    "vdot": "freight.vecdot", "flatnonzero": "freight.nonzero(x.reshape(-1))[0]",
    **{f"nan{name}": f"freight.{name}(x[~freight.isnan(x)])" for name in "mean sum prod max min std var".split()},
    "argpartition": "freight.argsort or freight.topk", "partition": "freight.sort", "ptp": "freight.max(x) - freight.min(x)",
    "atleast_1d": "x.reshape(-1)", "atleast_2d": "x[None]", "atleast_3d": "x[None]", "fliplr": "freight.flip(x, 1)", "flipud": "freight.flip(x, 0)",
    "jacobian": "freight.grad of each output, in a loop", "hessian": "freight.grad of each component of freight.grad, in a loop",
    "bool_": "freight.bool", "int_": "freight.int64", "float_": "freight.float64", "float_power": "freight.pow", "logspace": "10 ** freight.linspace(a, b, n)",
    "average": "freight.mean", "cumsum": "freight.cumulative_sum", "cumprod": "freight.cumulative_prod", "unsqueeze": "freight.expand_dims", "transpose": "freight.permute_dims",
    "permute": "freight.permute_dims", "bmm": "freight.matmul", "mm": "freight.matmul", "mv": "freight.matmul", "dot": "freight.matmul, of vectors vecdot", "inner": "freight.vecdot",
    "norm": "freight.linalg.norm", "stddev": "freight.std", "cast": "freight.astype", "iota": "freight.arange, and freight.broadcast_to",
    "slice": "x[start:stop]", "index_select": "freight.take", "take_along_dim": "freight.take_along_axis", "masked_select": "x[mask]",
    "array_split": "freight.split, with the sizes of the parts", "hsplit": "freight.split", "vsplit": "freight.split", "column_stack": "freight.stack(arrays, axis=1)",
    "dstack": "freight.concat", "ravel": "x.reshape(-1)", "swapaxes": "x.swapaxes(a, b)", "swapdims": "x.swapaxes(a, b)", "movedim": "freight.moveaxis",
    "identity": "freight.eye", "invert": "freight.bitwise_invert",
    "shift_left": "freight.bitwise_left_shift", "shift_right": "freight.bitwise_right_shift", "is_finite": "freight.isfinite", "is_inf": "freight.isinf",
    "is_nan": "freight.isnan", "mul": "freight.multiply", "sub": "freight.subtract", "div": "freight.divide", "true_divide": "freight.divide",
    "mod": "freight.remainder", "eq": "freight.equal", "ne": "freight.not_equal", "lt": "freight.less", "le": "freight.less_equal", "gt": "freight.greater",
    "ge": "freight.greater_equal", "nan_to_num": "freight.where(freight.isnan(x), 0, x)",
    "rint": "freight.round", "around": "freight.round", "conjugate": "freight.conj", "inverse": "freight.linalg.inv",
    "pinverse": "freight.linalg.pinv", "matrix_exp": "freight.expm", "matrix_trace": "freight.trace", "random_normal": "freight.random.normal",
    "random_uniform": "freight.random.uniform", "normal": "freight.random.normal", "bernoulli": "freight.random.bernoulli",
    "multinomial": "freight.random.choice", "set_num_threads": "freight.set_threads", "is_tensor": "isinstance(x, freight.Array)",
    **{name: f"freight.linalg.{name}" for name in "cholesky eig eigh eigvals eigvalsh matrix_norm matrix_power matrix_rank pinv slogdet svdvals vector_norm".split()},
    **{name: f"numpy.{name}, which takes these arrays" for name in "percentile quantile histogram interp cov corrcoef polyfit loadtxt argwhere digitize trapezoid gradient vander lexsort rot90".split()},
    "arctan2": "freight.atan2", "arcsin": "freight.asin", "arccos": "freight.acos", "arctan": "freight.atan", "amax": "freight.max", "amin": "freight.min",
    "float": "freight.float32", "double": "freight.float64", "long": "freight.int64",
    **dict.fromkeys(("no_grad", "inference_mode", "set_grad_enabled"), "not needed: gradients are computed by freight.grad and freight.value_and_grad alone"),
    "compile": "freight.jit", "vmap": "batches, which all functions take", "optimizers": "freight.optim", "layers": "freight.nn",
    "Sequential": "freight.nn.Sequential", "Model": "freight.nn.Module", "save": "module.save(path), or numpy.savez(path, **module.state_dict())",
    "utils": "a loop over arrays, or fit with a DataLoader", "keras": "freight.nn and Module.fit",
}
ARRAY = {
    "numel": "x.size", "dim": "x.ndim", "view": "x.reshape", "permute": "x.transpose", "unsqueeze": "freight.expand_dims", "detach": "freight.stop_gradient(x)",
    "cuda": 'x.to("cuda")', "float": "x.astype(freight.float32)", "double": "x.astype(freight.float64)",
    "long": "x.astype(freight.int64)", "int": "x.astype(freight.int32)", "half": "x.astype(freight.float16)", "type": "x.astype", "clone": "freight.asarray(x, copy=True)",
    "backward": "loss, grads = freight.value_and_grad(loss_of)(net, x, y)",
    "grad": "loss, grads = freight.value_and_grad(loss_of)(net, x, y)", "requires_grad": "freight.grad(function)(x)", "norm": "freight.linalg.norm(x)",
    "softmax": "freight.softmax(x)", "relu": "freight.relu(x)", "exp": "freight.exp(x)", "log": "freight.log(x)", "sqrt": "freight.sqrt(x)", "abs": "abs(x)",
    "pow": "x ** n", "clamp": "freight.clip(x, low, high)",
    "matmul": "x @ y", "expand": "freight.broadcast_to(x, shape)", "masked_fill": "freight.where(mask, value, x)",
    "topk": "freight.topk(x, k)", "sort": "freight.sort(x)", "values": "freight.max(x, axis=a), and freight.argmax(x, axis=a) for the indices",
    "indices": "freight.argmax(x, axis=a)", "at": "x[index] = value",
}
MODULE = {
    "zero_grad": "not needed: freight.value_and_grad returns new gradients", "cuda": 'module.to("cuda")', "cpu": 'module.to("cpu")',
    **dict.fromkeys(("float", "double"), "not needed: parameters are float32"), "half": 'fit(precision="fp16") or freight.autocast(freight.float16)',
    "bfloat16": 'fit(precision="bf16") or freight.autocast(freight.bfloat16)', "compile": "module.fit(x, y, optimizer=..., loss=...)",
    "get_weights": "module.state_dict()", "set_weights": "module.load_state_dict(arrays)", "save_weights": "module.save(path)",
    "count_params": "module.summary()", "layers": "module.children()", "trainable": "module.requires_grad_(True or False)",
    "partial_fit": "module.fit, which continues from the weights that the module has", "score": "module.evaluate(x, y)",
    "predict_proba": "freight.softmax(module.predict(x))", "register_forward_hook": "a class whose forward returns what is wanted",
}
OPTIMIZER = {
    "step": "optimizer.update(grads), with grads of freight.value_and_grad", "zero_grad": "not needed: freight.value_and_grad returns new gradients",
    "param_groups": "optimizer.lr, or optimizer.group_lr(name)", "minimize": "optimizer.update(grads), with grads of freight.value_and_grad",
}
NN = {
    "Dense": "nn.Linear(inputs, outputs)", "Conv1D": "nn.Conv1d", "Conv2D": "nn.Conv2d", "Conv2DTranspose": "nn.ConvTranspose2d", "MaxPooling2D": "nn.MaxPool2d",
    "AveragePooling2D": "nn.AvgPool2d", "GlobalAveragePooling2D": "nn.AdaptiveAvgPool2d(1)", "GlobalMaxPooling2D": "nn.AdaptiveMaxPool2d(1)",
    "BatchNormalization": "nn.BatchNorm1d or nn.BatchNorm2d", "LayerNormalization": "nn.LayerNorm", "Activation": "nn.ReLU and others", "Input": "not needed: shapes follow from the data",
    "Reshape": "nn.Unflatten", "Bidirectional": "nn.LSTM(..., bidirectional=True)", "SpatialDropout2D": "nn.Dropout2d", "ZeroPadding2D": "nn.ZeroPad2d",
    "UpSampling2D": "nn.Upsample", "FractionalMaxPool2d": "nn.AdaptiveMaxPool2d, whose windows are not random", "utils": "clip_grad_norm= of an optimizer or of fit",
    "Tensor": "freight.Array", "DataParallel": "freight launch",
}
ESTIMATOR = {
    "learning_rate": "lr", "learning_rate_init": "lr", "n_estimators": "rounds of gbdt, trees of forest", "max_iter": "rounds of gbdt, epochs of networks",
    "early_stopping": "early_stop", "early_stopping_rounds": "early_stop", "n_iter_no_change": "early_stop", "validation_fraction": "val_split",
    "l2_regularization": "reg_lambda", "alpha": "weight_decay of networks, reg_lambda of gbdt", "C": "reg_lambda", "colsample_bytree": "colsample",
    "seed": "random_state", "n_jobs": "freight.set_threads(n)", "loss": "objective", "criterion": "objective", "monotonic_cst": "monotone",
    "eval_metric": "metric", "scoring": "metric", "verbose": "not needed: fit prints nothing", "solver": 'fit_settings={"optimizer": ...} of a network',
    **{name: f'fit_settings={{"{name}": ...}} of a network' for name in ("optimizer", "callbacks", "scheduler", "precision", "grad_accum")},
}
FIT = {
    "initial_epoch": "resume=True", "validation_batch_size": "batch_size",
    "early_stopping": "callbacks=callbacks.EarlyStopping(patience=3)", "num_epochs": "epochs", "n_epochs": "epochs", "max_epochs": "epochs",
    "validation_freq": "eval_every", "val_data": "validation_data", "eval_set": "validation_data", "scheduler": "lr_scheduler, or callbacks.LearningRate",
    "use_multiprocessing": "a DataLoader with workers", "x_val": "validation_data=(x_val, y_val)", "criterion": "loss", "patience": "early_stop, or callbacks.EarlyStopping",
}
CALLBACK = {
    "verbose": "fit(verbose=2)", "save_best_only": "monitor, with keep=1: the best checkpoint, and the newest to resume from",
    "save_weights_only": "not needed: model.safetensors of a checkpoint has the weights alone", "save_freq": "every", "save_top_k": "keep", "max_to_keep": "keep",
}
OPTIM = {
    **dict.fromkeys(("Adamax", "RAdam", "Adadelta", "Adafactor", "Ftrl"), "optim.Adam or optim.RMSprop"), "Nadam": "optim.NAdam",
    "LBFGS": "optim.Adam", "SparseAdam": "optim.Adam", "Rprop": "optim.RMSprop", "lr_scheduler": "optim.cosine and others: optimizer.lr = schedule(step)",
    "StepLR": "optim.step", "MultiStepLR": "optim.multi_step", "CosineAnnealingLR": "optim.cosine", "OneCycleLR": "optim.one_cycle",
    "CosineAnnealingWarmRestarts": "optim.cosine_restarts", "LinearLR": "optim.linear", "ReduceLROnPlateau": "optim.Plateau",
    "ExponentialLR": "optim.step(lr, 1, gamma)", "LambdaLR": "optim.Schedule(function)", "ConstantLR": "optim.constant",
    "schedules": "optim.cosine and others",
}
CALLBACKS = {
    "ModelCheckpoint": "callbacks.Checkpoint", "LearningRateScheduler": "callbacks.LearningRate", "LambdaCallback": "a class derived from callbacks.Callback",
    "ReduceLROnPlateau": 'fit(lr_scheduler="plateau")', "CSVLogger": "fit(output_dir=), which writes metrics.jsonl", "ProgbarLogger": "callbacks.Progress",
    "TerminateOnNaN": "not needed: a loss that is NaN ends the run", "History": "what fit returns", "BackupAndRestore": "callbacks.Checkpoint, and fit(resume=True)",
}
RANDOM = {
    "rand": "random.uniform", "random": "random.uniform", "randn": "random.normal", "standard_normal": "random.normal", "integers": "random.randint",
    "default_rng": "random.seed, and random.key for draws of their own", "RandomState": "random.seed", "manual_seed": "random.seed", "PRNGKey": "random.key",
    "shuffle": "random.permutation", "binomial": "random.bernoulli", "categorical": "random.choice", "truncated_normal": "random.normal",
    "exponential": "-freight.log(1 - random.uniform(shape))", "set_seed": "random.seed", "multinomial": "random.choice",
}
# What other packages call parameters, and their names here; in nn.functional the other way round.
KEYWORDS = {
    "dim": "axis", "dims": "axis", "axes": "axis", "keepdim": "keepdims", "ddof": "correction", "unbiased": "correction", "axis": "dim", "keepdims": "keepdim",
    "size": "shape", "loc": "mean", "scale": "std", "a_min": "min", "a_max": "max", "reps": "repetitions", "diagonal": "k", "lengths": "sizes",
    "chunks": "parts", "minlength": "size", "num_classes": "depth", "n_classes": "depth", "full_matrices": "full", "rcond": "rtol", "num_samples": "shape",
    "shifts": "shift", "steps": "num", "split_size_or_sections": "sizes", "p": "ord", "descending": "order",
}


def explained(names, module, arrays=(), array=None):
    """Replaces the module's functions by ones whose error for an unknown keyword says which there are, and what it is called here.
    Arguments of parameters that are among `arrays` become array(argument)."""
    for name, function in list(names.items()):
        if not isinstance(function, types.FunctionType) or name.startswith("_") or hasattr(function, "__wrapped__"):
            continue
        code = function.__code__
        known = code.co_varnames[code.co_posonlyargcount:code.co_argcount + code.co_kwonlyargcount]
        taken = () if function.__module__ == "freight._functions" else arrays  # the extension, which those call, converts itself
        if (known or set(taken) & set(code.co_varnames[:code.co_argcount])) and not code.co_flags & 0x08 and function.__module__.startswith("freight"):
            names[name] = _explained(function, known, module, taken, array)  # not those that take any keyword


def _explained(function, known, module, arrays, array):
    code = function.__code__
    places = [place for place, name in enumerate(code.co_varnames[:code.co_argcount]) if name in arrays]

    @functools.wraps(function)
    def call(*arguments, **keywords):
        for place in places:
            if place < len(arguments) and not isinstance(arguments[place], Array):
                arguments = (*arguments[:place], array(arguments[place]), *arguments[place + 1:])
        if keywords and arrays:
            keywords = {name: array(a) if name in arrays else a for name, a in keywords.items()}
        try:
            return function(*arguments, **keywords)
        except TypeError as error:
            for name in keywords:
                if name not in known and name not in function.__code__.co_varnames[:function.__code__.co_posonlyargcount]:
                    raise unknown_argument(f"{function.__name__}()", name, known) from None
            if "incompatible function arguments" in str(error):  # of the extension, in its types
                given = [type(a).__name__ for a in arguments] + [f"{name}={type(a).__name__}" for name, a in keywords.items()]
                raise TypeError(f"{function.__name__}(): an argument has a type that it does not take: got {', '.join(given)}; "
                                f"help({module.split()[-1]}.{function.__name__}) says what it expects") from None
            raise

    call.__module__ = module
    return call


def unknown_argument(function, name, known):
    """The error for a keyword that a function does not have."""
    here = KEYWORDS.get(name)
    near = [here] if here in known else difflib.get_close_matches(name, known, 1)
    hint = f": use {near[0]}" if near else f": expected {', '.join(known)}"
    return TypeError(f"{function} got an unexpected keyword argument {name!r}{hint}")


def keywords_for_flags(error, names={}):
    """Makes an error of the library name keywords in place of the command's flags; errors that Python code has raised stay as they are."""
    if error.__traceback__.tb_next is None and error.args and isinstance(error.args[0], str):
        text = re.sub(r"(?<![\w-])--([a-z][a-z-]*)", lambda m: names.get(m[0]) or m[1].replace("-", "_"), error.args[0])
        error.args = (text, *error.args[1:])


def raised_at(text):
    """Of the text of an exception of Python with its traceback what it says, and the line of the program; other texts as they are."""
    if not text.startswith("Traceback"):
        return text
    here, last = os.path.dirname(__file__) + os.sep, text.strip().splitlines()[-1]
    places = [(os.path.basename(file), line) for file, line in re.findall(r'File "([^"]+)", line (\d+)', text) if not file.startswith(here)]
    if "required positional argument" in last:
        last += "; for several inputs input_shape is a list of shapes"
    return f"{last} ({':'.join(places[-1])})" if places and not re.search(r":\d+\)$", last) else last


def _worded(hint):
    return f": {hint}" if hint.startswith("not needed") else f": use {hint}" if hint else ""


def unknown_keyword(callback, name):
    """The error for an argument of a callback that does not exist."""
    return TypeError(f"{callback} has no argument {name!r}{_worded(CALLBACK.get(name, ''))}")


def missing(owner, name, hints):
    """The error for an attribute that does not exist."""
    return AttributeError(f"{owner} has no attribute {name!r}{_worded(hints.get(name, ''))}")


def unknown_setting(owner, name, known):
    """The error for a setting of an estimator that does not exist: other packages call it so, or it is near one that does."""
    near = difflib.get_close_matches(name, known, 1)
    return TypeError(f"{owner} has no setting {name!r}{_worded(ESTIMATOR.get(name, near[0] if near else ''))}")
