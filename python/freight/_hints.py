"""What a name of PyTorch, NumPy or Keras that is missing here is called in Freight, for messages of errors."""
import difflib

PACKAGE = {
    "tensor": "freight.asarray", "Tensor": "freight.Array", "from_numpy": "freight.asarray", "array": "freight.asarray", "ndarray": "freight.Array",
    "as_tensor": "freight.asarray", "rand": "freight.random.uniform", "randn": "freight.random.normal", "randint": "freight.random.randint",
    "randperm": "freight.random.permutation", "manual_seed": "freight.random.seed", "cat": "freight.concat", "concatenate": "freight.concat",
    "vstack": "freight.concat", "hstack": "freight.concat", "clamp": "freight.clip", "absolute": "freight.abs", "power": "freight.pow",
    "median": "the middle of freight.sort", "average": "freight.mean", "cumsum": "freight.cumulative_sum", "cumprod": "freight.cumulative_prod", "unsqueeze": "freight.expand_dims", "transpose": "freight.permute_dims",
    "permute": "freight.permute_dims", "bmm": "freight.matmul", "mm": "freight.matmul", "dot": "freight.vecdot", "norm": "freight.linalg.vector_norm",
    "arctan2": "freight.atan2", "arcsin": "freight.asin", "arccos": "freight.acos", "arctan": "freight.atan", "amax": "freight.max", "amin": "freight.min",
    "float": "freight.float32", "double": "freight.float64", "long": "freight.int64",
    "no_grad": "not needed: gradients are computed by freight.grad and freight.value_and_grad alone",
    "compile": "freight.jit", "vmap": "batches, which all functions take", "optimizers": "freight.optim", "layers": "freight.nn",
    "Sequential": "freight.nn.Sequential", "Model": "freight.nn.Module", "save": "module.save(path), or numpy.savez(path, **module.state_dict())",
    "utils": "a loop over arrays, or fit with a DataLoader", "keras": "freight.nn and Module.fit",
}
ARRAY = {
    "numel": "x.size", "dim": "x.ndim", "view": "x.reshape", "permute": "x.transpose", "unsqueeze": "freight.expand_dims", "detach": "freight.stop_gradient(x)",
    "cuda": 'x.to("cuda")', "float": "x.astype(freight.float32)", "double": "x.astype(freight.float64)",
    "long": "x.astype(freight.int64)", "int": "x.astype(freight.int32)", "half": "x.astype(freight.float16)", "type": "x.astype", "clone": "freight.asarray(x, copy=True)",
    "backward": "loss, grads = freight.value_and_grad(loss_of)(net, x, y)",
    "grad": "loss, grads = freight.value_and_grad(loss_of)(net, x, y)", "requires_grad": "freight.grad(function)(x)", "norm": "freight.linalg.vector_norm",
    "softmax": "freight.softmax(x)", "relu": "freight.relu(x)", "exp": "freight.exp(x)", "log": "freight.log(x)", "sqrt": "freight.sqrt(x)", "abs": "abs(x)",
    "pow": "x ** n", "clamp": "freight.clip(x, low, high)",
    "matmul": "x @ y", "expand": "freight.broadcast_to(x, shape)", "masked_fill": "freight.where(mask, value, x)",
    "topk": "freight.topk(x, k)", "sort": "freight.sort(x)",
}
MODULE = {
    "zero_grad": "not needed: freight.value_and_grad returns new gradients", "cuda": 'module.to("cuda")', "cpu": 'module.to("cpu")',
    "float": "not needed: parameters are float32", "half": 'fit(precision="fp16") or freight.autocast(freight.float16)',
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
    "UpSampling2D": "nn.Upsample", "init": "the setting init= of a layer, or layer.weight = array", "utils": "clip_grad_norm= of an optimizer or of fit",
    "Tensor": "freight.Array", "DataParallel": "freight launch", "RNN": "nn.LSTM, nn.GRU, or nn.RNNCell in a loop",
}
ESTIMATOR = {
    "learning_rate": "lr", "learning_rate_init": "lr", "n_estimators": "rounds of gbdt, trees of forest", "max_iter": "rounds of gbdt, epochs of networks",
    "early_stopping": "early_stop", "early_stopping_rounds": "early_stop", "n_iter_no_change": "early_stop", "validation_fraction": "val_split",
    "l2_regularization": "reg_lambda", "alpha": "weight_decay of networks, reg_lambda of gbdt", "C": "reg_lambda", "colsample_bytree": "colsample",
    "seed": "random_state", "n_jobs": "freight.set_threads(n)", "loss": "objective", "criterion": "objective", "monotonic_cst": "monotone",
    "eval_metric": "metric", "scoring": "metric", "verbose": "not needed: fit prints nothing",
}


def missing(owner, name, hints):
    """The error for an attribute that does not exist."""
    hint = hints.get(name, "")
    if hint:
        hint = f": {hint}" if hint.startswith("not needed") else f": use {hint}"
    return AttributeError(f"{owner} has no attribute {name!r}{hint}")


def unknown_setting(owner, name, known):
    """The error for a setting of an estimator that does not exist: other packages call it so, or it is near one that does."""
    near = difflib.get_close_matches(name, known, 1)
    hint = ESTIMATOR.get(name, near[0] if near else "")
    if hint:
        hint = f": {hint}" if hint.startswith("not needed") else f": use {hint}"
    return TypeError(f"{owner} has no setting {name!r}{hint}")
