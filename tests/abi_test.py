#!/usr/bin/env python3
"""Whether Freight's declarations of one of NVIDIA's interfaces are those of its headers, and its library has the functions.

usage: tests/abi_test.py driver|nvrtc|cublas|cublaslt|cudnn|cusolver|nccl [CXX]

Compiles tests/abi_test.cpp against the toolkit's header, after seeing that it names every number, and that it does not compile
when one of them is another. Then asks the library (of the driver, the toolkit's stub will do) for every function that Freight looks
up. Exits 77 where there is no toolkit: a skipped test.
"""
import ctypes
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = "src/freight/backend/gpu/cuda/"
FAKES = ROOT / "tests/cuda/fake_cuda/interfaces.h"
# By interface: its header, the libraries, where Freight declares it, what stands before the names in its lists of functions.
INTERFACES = {
    "driver": ("cuda.h", ["libcuda.so.1", "stubs/libcuda.so"], "driver.h", "", "FREIGHT_CUDA_FUNCTIONS"),
    "nvrtc": ("nvrtc.h", ["libnvrtc.so.13", "libnvrtc.so.12"], "abi.h", "", "FREIGHT_NVRTC_FUNCTIONS"),
    "cublaslt": ("cublasLt.h", ["libcublasLt.so.13", "libcublasLt.so.12"], "abi.h", "cublasLt", "FREIGHT_CUBLASLT_FUNCTIONS"),
    "cublas": ("cublas_v2.h", ["libcublas.so.13", "libcublas.so.12"], "abi.h", "cublas", "FREIGHT_CUBLAS_FUNCTIONS"),
    "cudnn": ("cudnn_adv.h", ["libcudnn.so.9"], "abi.h", "cudnn", "FREIGHT_CUDNN_FUNCTIONS"),
    "cusolver": ("cusolverDn.h", ["libcusolver.so.12", "libcusolver.so.11"], "abi.h", "cusolver",
                 "FREIGHT_CUSOLVER_FUNCTIONS FREIGHT_CUSOLVER_NEWER_FUNCTIONS"),
    "nccl": ("nccl.h", ["libnccl.so.2"], "abi.h", "nccl", "FREIGHT_NCCL_FUNCTIONS"),
}


def skip(why):
    print(f"abi_test: skipped: {why}")
    sys.exit(77)


def toolkits():
    named = [os.environ[n] for n in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(n)]
    return named + ["/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-[0-9]*"), reverse=True), "/opt/cuda"]


def numbers(text):
    """The names of the constants that a header's text declares."""
    return re.findall(r"\b(k[A-Z]\w*) =", "\n".join(re.findall(r"^constexpr [^;]*;", text, re.M)))


def part(text, name):
    """The text of a nested namespace; all of it where it has none of that name."""
    found = re.search(r"^namespace [\w:]*\b" + name + r" \{\n(.*?)^\}(?:  //.*)?$", text, re.M | re.S)
    return found.group(1) if found else text if name == "driver" else ""


def main():
    name = sys.argv[1]
    compiler = sys.argv[2] if len(sys.argv) > 2 else "c++"
    header, libraries, ours, prefix, functions = INTERFACES[name]
    homes = [home for home in toolkits() if os.path.exists(f"{home}/include/{header}")]
    if not homes:
        skip(f"no {header} in the folders include of {', '.join(toolkits())}")
    text = (ROOT / OURS / ours).read_text()
    test = (ROOT / "tests/abi_test.cpp").read_text()
    test = test[test.index(f"#ifdef CHECK_{name.upper()}\n"):]
    test = test[:test.index("#endif")]
    space = "blaslt" if name == "cublaslt" else name
    own = numbers(part(text, space))
    qualified = [k if name == "driver" else f"our::{k}" for k in own] + [f"their::{k}" for k in numbers(part(FAKES.read_text(), space))]
    missing = [k for k in qualified if not re.search(r"(?<!:)\b" + k + r"\b", test)]
    if missing:
        sys.exit(f"abi_test: tests/abi_test.cpp does not compare {', '.join(missing)}")

    def compiles(*more):
        command = [compiler, "-std=c++20", "-fsyntax-only", f"-DCHECK_{name.upper()}", *more, "-I", ROOT / "src", "-I", ROOT, "-isystem",
                   f"{homes[0]}/include", ROOT / "tests/abi_test.cpp"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode == 0, done.stderr

    good, said = compiles()
    if not good:
        sys.exit(f"abi_test: not what {homes[0]}/include/{header} says:\n{said[-4000:]}")
    if own:
        with tempfile.TemporaryDirectory() as scratch:
            wrong = pathlib.Path(scratch, OURS[len("src/"):], ours)
            wrong.parent.mkdir(parents=True)
            # Of the interface alone: others may have a number of that name.
            wrong.write_text(text.replace(part(text, space), re.sub(r"\b(" + own[0] + r" = )", r"\g<1>1 + ", part(text, space))))
            good, said = compiles("-I", scratch)
            if good or own[0] not in said:
                sys.exit(f"abi_test: compiles with another {own[0]}: {said}")

    found = [p for home in homes for library in libraries for folder in ("lib64", "lib") for p in [f"{home}/{folder}/{library}"]
             if os.path.exists(p)]
    if not found:
        skip(f"the header was compared, but {' or '.join(libraries)} is not beside it")
    listed = "".join(re.search(r"#define " + f + r"\(F\)((?:.*\\\n)*.*\n)", text).group(1) for f in functions.split())
    symbols = re.findall(r"\bF\(\w+, (\w+)" if name == "driver" else r"\bF\((\w+),", listed)
    library = ctypes.CDLL(found[0])
    absent = [prefix + s for s in symbols if not hasattr(library, prefix + s)]
    if absent or hasattr(library, prefix + "NoSuchFunction"):
        sys.exit(f"abi_test: {found[0]} has no {', '.join(absent)}")
    print(f"{name}: {len(qualified)} numbers as in {homes[0]}/include/{header}, {len(symbols)} functions of {found[0]}")


main()
