"""Which keywords fit takes of the flags of `freight train`."""
import functools
import inspect

from . import _command_functions, _core


@functools.cache
def _names():
    """(the names that aliases stand for, the keywords of the command alone)"""
    known = _core.settings()
    flags = inspect.signature(_command_functions.train).parameters.values()
    return ({alias: name for name, others in known.items() for alias in others},
            {p.name for p in flags if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name not in known})


def checked(owner, settings):
    """The settings as a dict of its own. Names of the command that fit lacks, and aliases, are refused with what to use;
    the trainer refuses names that nobody knows."""
    aliases, of_command = _names()
    for name, value in settings.items():
        if name in aliases:
            raise TypeError(f"{owner} has no setting {name!r}: use {aliases[name]}")
        if name in of_command:
            raise TypeError(f"{owner}: {name} is a flag of the command that fit does not take: use freight.train")
        if name == "early_stop" and type(value) is not int:
            raise TypeError(f"{owner}: early_stop: expected a whole number of evaluations, 0 for none, got {value!r}")
    return dict(settings)
