"""Optimizers over those of the library; freight.optim has one class for each. Schedules of learning rates."""
import inspect
import math
import struct

from . import _array_api as xp
from . import _core, _hints, distributed
from ._core import Array
from ._module import Module
from ._parameter import Parameter, names_in, origin, recording


def _shortest(rate):
    """The number of the fewest digits that is this one in f32, as which rates are kept: 0.02, and not 0.019999999552965164."""
    texts = (f"{rate:.{digits}g}" for digits in range(1, 9))
    return next((float(t) for t in texts if struct.unpack("f", struct.pack("f", float(t)))[0] == rate), rate)


def _gradients_of(grads):
    """The arrays of nested gradients, and None where a parameter has none."""
    if grads is None or isinstance(grads, Array):
        return [grads]
    if isinstance(grads, (dict, list, tuple)):
        return [g for part in (grads.values() if isinstance(grads, dict) else grads) for g in _gradients_of(part)]
    raise TypeError(f"update: expected gradients as freight.Array, or None, got {type(grads).__name__}")


def _refuse_names(own, grads):
    """Raises for gradients by names that are not those of the optimizer's own parameters."""
    missing = next((name for name in own if name not in grads), None)
    fault = (f"{missing!r} has none; gradients of other names are given as a list, in the order of the parameters" if missing else
             "they are of another module")
    raise ValueError(f"update: expected gradients of {', '.join(own[:8])}{' and more' * (len(own) > 8)}, got {', '.join(map(str, list(grads)[:8]))}: {fault}")


class Optimizer:
    """Updates the parameters of a module: `optimizer.update(grads)`, within a compiled function or outside. `params` is a
    module, parameters, or groups as PyTorch has them: dicts with "params" and their own "lr", "weight_decay", "name"."""

    def _make(self, params, given):
        groups = [params] if isinstance(params, (Module, Parameter)) else list(params)
        if not groups or not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self._parameters, self._owners, made = [], {}, []
        for group in groups:
            unknown = set(group) - {"params", "lr", "weight_decay", "name"}
            if unknown:
                raise ValueError(f"{type(self).__name__}: a group has params, lr, weight_decay and name: got {unknown.pop()!r}")
            parameters = self._listed(group["params"])
            self._parameters += parameters
            rate = {"lr": float(given["lr"])} if len(groups) > 1 and given["lr"] > 0 else {}  # which group_lr sets
            made.append({**rate, **group, "params": [p._variable for p in parameters]})
        settings = {k: v for k, v in given.items() if k not in ("self", "params")}
        if "betas" in settings:
            settings["beta1"], settings["beta2"] = settings.pop("betas")
        settings = {k: float(v) if type(v) is int and k != "iterations" else v for k, v in settings.items()}
        self._optimizer = _core.make_optimizer(type(self).__name__, made, settings)
        self._first_lr = self._optimizer.lr
        job = distributed._job()
        self._shared = job and distributed._Shared(job, self._parameters, self._owners.values())

    def _listed(self, params):
        listed = []
        for p in [params] if isinstance(params, (Module, Parameter)) else params:
            named = origin(p)  # of an attribute of a module, such as net.fc.weight, which is an array
            p = p if named is None else named
            if not isinstance(p, (Module, Parameter)):
                raise TypeError(f"{type(self).__name__}: expected modules or their parameters(), got {type(p).__name__}")
            owner = p if isinstance(p, Module) else getattr(p, "_owner", None)
            if owner is not None:
                self._owners[id(owner)] = owner
            listed += p.parameters() if isinstance(p, Module) else [p]
        return listed

    def update(self, grads):
        """Changes the parameters by their gradients, which value_and_grad of a module gives: a dict by the names of the parameters,
        which may have others beside, or all in their order, nested in lists and dicts. Frozen parameters have none, and one whose gradient is None is left
        alone. Of several ranks (freight.distributed) all call it, and the means of their gradients count, None as zeros: each rank
        computes those of its equal part of the batch."""
        trained = [p for p in self._parameters if p.requires_grad]
        if isinstance(grads, dict):  # groups may have another order than the module
            own = [p.name for p in trained]
            names = names_in(grads, [p._variable for p in trained]) or (own if len(own) == len(grads) and grads.keys() == set(own) else None)
            if names is None and not any(isinstance(g, (dict, list, tuple)) for g in grads.values()):
                _refuse_names(own, grads)
            grads = grads if names is None else [grads[name] for name in names]
        gradients = _gradients_of(grads)
        if len(gradients) != len(trained):
            raise ValueError(f"update: expected a gradient for each of {len(trained)} parameters, got {len(gradients)}")
        for p, g in zip(trained, gradients):
            if g is not None and g.shape != p.shape:
                raise ValueError(f"update: the gradient of {p.name} must have shape {p.shape}, got {g.shape}")
        if self._shared:
            gradients = self._shared.gradients(trained, gradients)
            self._shared.average_buffers()
        given = iter(gradients)
        self._optimizer.apply([next(given) if p.requires_grad else None for p in self._parameters])
        if not recording():
            _core.evaluate_pending()

    def __getattr__(self, name):
        raise _hints.missing(type(self).__name__, name, _hints.OPTIMIZER)

    def __setattr__(self, name, value):
        if name != "lr" and name[:1] != "_" and name in inspect.signature(type(self).__init__).parameters:
            raise AttributeError(f"{type(self).__name__}: {name} cannot be set: make another optimizer, and take its state by load_state_dict")
        object.__setattr__(self, name, value)

    @property
    def lr(self):
        """The learning rate, which may be set between steps; groups with a rate of their own keep its ratio."""
        return _shortest(self._optimizer.lr)

    @lr.setter
    def lr(self, lr):
        self._optimizer.lr = float(lr)
        self._first_lr = self._optimizer.lr  # with which the schedule of a run begins

    def group_lr(self, name, lr=None):
        """The rate of a group; sets it where one is given, from when on it keeps its ratio to `lr`."""
        if lr is not None:
            self._optimizer.set_group_lr(name, float(lr))
        return _shortest(self._optimizer.group_lr(name))

    def state_dict(self):
        """Copies of moments, step counts and rates. With them, and the weights, training continues bitwise as if never interrupted."""
        return self._optimizer.state()

    def load_state_dict(self, state_dict):
        """Takes what state_dict gave, of an optimizer of the same parameters."""
        ratios = {k: xp.ones(()) for k in self._optimizer.state() if k.startswith("lr_ratio.")}  # states of earlier versions have none
        self._optimizer.load_state(ratios | {k: v for k, v in state_dict.items() if isinstance(v, Array)})
        self._first_lr = self._optimizer.lr


class Schedule:
    """The learning rate of each step, from 0: `optimizer.lr = schedule(step)`."""

    def __init__(self, at):
        self._at = at

    def __call__(self, step):
        return self._at(step)

    def warmup(self, steps, start_factor=0.01):
        """The same schedule after so many steps that rise linearly to its first rate."""
        first = self._at(0)
        return Schedule(lambda step: self._at(step - steps) if step >= steps
                        else first * (start_factor + (1 - start_factor) * step / steps))


def constant(lr):
    """The same rate in every step."""
    return Schedule(_core.schedule("constant", [lr], []).at)


def step(lr, step_size, gamma=0.1):
    """PyTorch's StepLR."""
    return Schedule(_core.schedule("step", [lr, step_size, gamma], []).at)


def multi_step(lr, milestones, gamma=0.1):
    """PyTorch's MultiStepLR."""
    return Schedule(_core.schedule("multi_step", [lr, gamma], list(milestones)).at)


def cosine(lr, total_steps, eta_min=0.0):
    """PyTorch's CosineAnnealingLR, but that the rate stays at eta_min after total_steps."""
    return Schedule(_core.schedule("cosine", [lr, total_steps, eta_min], []).at)


def cosine_restarts(lr, first_steps, factor=1, eta_min=0.0):
    """PyTorch's CosineAnnealingWarmRestarts: each cycle is `factor` times as long as the one before."""
    if first_steps < 1 or factor < 1:
        raise ValueError(f"cosine_restarts: expected first_steps and factor of at least 1, got {first_steps} and {factor}")

    def at(step):
        length = first_steps
        while step >= length:
            step, length = (step % length, length) if factor == 1 else (step - length, length * factor)
        return eta_min + (lr - eta_min) * (1 + math.cos(math.pi * step / length)) / 2

    return Schedule(at)


def linear(lr, total_steps, end_factor=0.0):
    """PyTorch's LinearLR from 1."""
    return Schedule(_core.schedule("linear", [lr, total_steps, end_factor], []).at)


def one_cycle(max_lr, total_steps, pct_start=0.3, div_factor=25.0, final_div_factor=1e4):
    """PyTorch's OneCycleLR."""
    return Schedule(_core.schedule("one_cycle", [max_lr, total_steps, pct_start, div_factor, final_div_factor], []).at)


class Plateau:
    """PyTorch's ReduceLROnPlateau: `optimizer.lr = plateau(loss)` after each evaluation multiplies the rate by `factor` when the loss
    has not improved, by at least the fraction `threshold`, in more than `patience` evaluations in a row."""

    def __init__(self, lr, factor=0.1, patience=10, threshold=1e-4, min_lr=0.0):
        self.lr, self.factor, self.patience, self.threshold, self.min_lr = lr, factor, patience, threshold, min_lr
        self.best, self.stale = math.inf, 0

    def __call__(self, loss):
        loss = float(loss)
        better = loss < self.best * (1 - self.threshold) if math.isfinite(self.best) else loss < self.best
        self.stale = 0 if better else self.stale + 1
        self.best = loss if better else self.best
        if self.stale > self.patience:
            self.lr, self.stale = max(self.lr * self.factor, self.min_lr), 0
        return self.lr
