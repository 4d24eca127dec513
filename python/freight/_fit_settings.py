"""Which keywords fit takes of the flags of `freight train`."""
import inspect

from . import _command_functions, _core


def checked(owner, settings):
    """The settings as a dict of its own. Names of the command that fit lacks, and aliases, are refused with what to use;
    the trainer refuses names that nobody knows."""
    known = _core.settings()
    aliases = {alias: name for name, others in known.items() for alias in others}
    flags = inspect.signature(_command_functions.train).parameters
    for name, value in settings.items():
        if name in aliases:
            raise TypeError(f"{owner} has no setting {name!r}: use {aliases[name]}")
        if name not in known and name in flags and flags[name].kind is inspect.Parameter.KEYWORD_ONLY:
            raise TypeError(f"{owner}: {name} is a flag of the command that fit does not take: use freight.train")
        if name == "early_stop" and type(value) is not int:
            raise TypeError(f"{owner}: early_stop: expected a whole number of evaluations, 0 for none, got {value!r}")
    return dict(settings)
