"""Every public name of the package, and every public method and property of its classes, has a text for help()."""
import importlib
import inspect

import pytest

import freight as fr

MODULES = ["", "callbacks", "data", "distributed", "fft", "linalg", "models", "nn", "nn.functional", "optim", "random"]


def names_of(module):
    """(name, value) of the public functions and classes of a module of the package."""
    lazy = [name for name in fr._LAZY if name not in MODULES and not name.startswith("Freight")] if module is fr else []
    for name in [*vars(module), *lazy]:
        value = getattr(module, name)
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", "").startswith("freight"):
            yield name, value


def members_of(cls):
    """(name, function) of the public methods and properties that the package's classes define."""
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        owner = next((c for c in cls.__mro__ if name in vars(c)), object)
        if not name.startswith("_") and owner.__module__.startswith("freight") and (callable(value) or isinstance(value, (property, staticmethod, classmethod))
                                                                                    or inspect.isdatadescriptor(value)):
            yield name, getattr(cls, name)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_text(module):
    owner = importlib.import_module(f"freight.{module}".rstrip("."))
    assert owner.__doc__
    missing = []
    for name, value in names_of(owner):
        if not inspect.getdoc(value) or type(value).__name__ == "function" and not value.__doc__:
            missing.append(name)
        if inspect.isclass(value):
            missing += [f"{name}.{member}" for member, found in members_of(value) if not inspect.getdoc(found)]
    assert missing == []


def test_the_text_of_a_plan_names_its_attributes():
    plan = fr.plan(lambda x: fr.exp(x), fr.ones(3))
    assert all(f"{name}" in fr.Plan.__doc__ for name in vars(plan)) and len(vars(plan)) == 5
