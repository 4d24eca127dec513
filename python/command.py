#!/usr/bin/env python3
"""Runs the command of the package `freight`."""
import ctypes
import importlib.util
import os
import sys

[package] = importlib.util.find_spec("freight").submodule_search_locations  # found, and not imported
try:
    ctypes.CDLL("libgomp.so.1")
except OSError:  # the package has a copy for systems without one
    folders = [os.path.join(package, "lib", "fallback"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    os.environ["LD_LIBRARY_PATH"] = ":".join(folders)
os.environ["FREIGHT_PYTHON_EXECUTABLE"] = sys.executable  # launch runs scripts by it
os.execv(os.path.join(package, "bin", "freight"), ["freight", *sys.argv[1:]])
