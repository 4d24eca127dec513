"""Which keywords fit takes of the flags of `freight train`, and what some of them change for the run alone."""
import contextlib
import inspect
import warnings

from . import _command_functions, _core, _hints, distributed

COMPUTE = {"fp32": _core.float32, "tf32": _core.float32, "bf16": _core.bfloat16, "fp16": _core.float16}  # the types that precisions compute in
_KNOWN = _core.settings()
# What an alias stands for, and the keywords of the command alone.
_ALIASES = {alias: name for name, others in _KNOWN.items() for alias in others}
_OF_COMMAND = {p.name for p in inspect.signature(_command_functions.train).parameters.values()
               if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name not in _KNOWN}


def checked(owner, settings):
    """The settings as a dict of its own. Names of the command that fit lacks, and aliases, are refused with what to use;
    the trainer refuses names that nobody knows."""
    for name, value in settings.items():
        if name in _hints.FIT and name not in _KNOWN:
            raise TypeError(f"{owner} has no setting {name!r}: use {_hints.FIT[name]}")
        if name in _ALIASES:
            raise TypeError(f"{owner} has no setting {name!r}: use {_ALIASES[name]}")
        if name in _OF_COMMAND:
            raise TypeError(f"{owner}: {name} is a flag of the command that fit does not take: use freight.train")
        if name == "early_stop" and type(value) is not int:
            raise TypeError(f"{owner}: early_stop: expected a whole number of evaluations, 0 for none, got {value!r}")
    return dict(settings)


@contextlib.contextmanager
def flags_kept(model, frozen):
    """Ends with what is trained as before where the run has `frozen` parts."""
    before = [(p, p.requires_grad) for p in model.parameters()] if frozen else []
    try:
        yield
    finally:
        for p, trained in before:
            if p.requires_grad != trained:
                p.requires_grad = trained


def warn_of_precision(precision, device, what):
    """Says where a device computes in another type than it is asked for."""
    note = _core.precision_note(precision, device) if isinstance(precision, str) and precision in COMPUTE else ""
    if note and not distributed.get_rank():
        warnings.warn(f"{what}: precision: {note}", stacklevel=6)
