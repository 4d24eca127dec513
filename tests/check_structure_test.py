"""tools/check_structure must report each kind of breach, and nothing in a clean tree."""
import pathlib
import re
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools" / "check_structure"
CLEAN = {
    "cmake/public_headers.txt": "# what is installed\nnn/*.h\nrun/a.h\n",
    "src/freight/base/env.cpp": '#include "freight/base/env.h"\nconst char* v = std::getenv("X");\n',
    "src/freight/base/env.h": "#pragma once\n#include <string>\n",
    "README.md": "Freight\n=======\n",  # an underlined heading, not a merge marker
    "src/freight/backend/cpu/matmul.cpp": "#include <oneapi/dnnl/dnnl.hpp>\n",
    "src/freight/base/parse_number.cpp": "std::from_chars(a, b, v);  // the one place\n",
    "src/freight/data/columns.cpp": "std::from_chars(a, b, v);\n",
    "tests/base/a.cpp": "const double v = std::strtod(text, nullptr);  // tests may\n",
    "src/freight/ir/op_table.inc": "FREIGHT_OP(add, .kind = binary)\nFREIGHT_OP(solve, .kind = composite, .scalar = "")\n",
    "src/freight/ir/composites.cpp": "case Op::solve:\n",
    "src/freight/passes/a.cpp": "case Op::add:  // Op::solve is like it\n",
    "src/freight/run/a.cpp": "// atoi() would take what is no number as 0\n",
}
BREACHES = [
    ("src/freight/base/a.cpp", '#include "freight/ir/graph.h"\n', "room base must not see ir"),
    ("src/freight/run/a.cpp", '#include "freight/trace/tensor.h"\n', "room run must not see trace"),
    ("src/freight/io/a.cpp", '#include "freight/ir/graph.h"\n', "room io must not see ir"),
    ("src/freight/store/a.cpp", '#include "freight/train/step.h"\n', "room store must not see train"),
    ("src/freight/deploy/a.cpp", '#include "freight/train/trainer.h"\n', "room deploy must not see train"),
    ("src/freight/serve/a.cpp", '#include "freight/train/evaluate.h"\n', "room serve must not see train"),
    ("src/freight/nn/a.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n", "belongs to backend/cpu/ alone"),
    ("src/freight/backend/cpu/a.cpp", "#include <cuda_runtime.h>\n", "belongs to backend/gpu/cuda/ alone"),
    ("src/freight/nn/a.h", "#include <nlohmann/json.hpp>\n", "third-party or system header"),
    ("src/freight/run/a.h", '#include "freight/backend/cpu/b.h"\n', "which is not installed"),
    ("src/freight/nn/a.h", '#include "freight/nn/b_internal.h"\n', "which is not installed"),
    ("src/freight/attic/a.cpp", "\n", "room attic is not in the table"),
    ("src/freight/ir/a.cpp", "\n" * 701, "701 lines"),
    ("CHANGELOG.md", "- a\n" + "<" * 7 + " HEAD\n- b\n" + "=" * 7 + "\n- c\n" + ">" * 7 + " topic\n", "CHANGELOG.md:2: a merge marker"),
    ("docs/a.md", "- c\n" + ">" * 7 + " topic\n", "docs/a.md:2: a merge marker"),
    ("tools/a", "|" * 7 + " 1a2b3c4\n", "tools/a:1: a merge marker"),
    ("src/freight/ir/a.cpp", 'auto v = getenv("Y");\n', "getenv must be called once"),
    ("src/freight/passes/a.cpp", "\nif (n.op == Op::solve) {}\n", "src/freight/passes/a.cpp:2: names Op::solve"),
    ("src/freight/ir/a.cpp", "\nint v = std::stoi(text);\n", "src/freight/ir/a.cpp:2: stoi: read numbers by parse_number"),
    ("apps/freight/a.cpp", "std::from_chars(a, b, v);\n", "apps/freight/a.cpp:1: from_chars: read numbers by parse_number"),
    ("apps/freight/a.cpp", "if (sscanf(t, \"%d\", &v) == 1) {}\n", "apps/freight/a.cpp:1: sscanf: read numbers by"),
    ("src/freight/ir/a.cpp", "// See base/env.cpp, ir/gone.h, and NAME.cpp.\n", "a.cpp:1: the comment names ir/gone.h,"),
    ("src/freight/ir/a.cpp", "int x;  // as gone_test.py does\n", "a.cpp:1: the comment names gone_test.py,"),
]


def run(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, TOOL, folder], stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout


# Files that are there by a part of their path, placeholders, examples in quotes, and addresses are no fault.
CLEAN["src/freight/ir/b.cpp"] = '// See cpu/matmul.cpp, env.h, *_test.cpp, "sum at net.cpp:12", https://a.org/b.h.\n'
code, text = run(CLEAN)
assert code == 0, text
for name, content, message in BREACHES:
    if message:
        code, text = run({**CLEAN, name: content})
        assert code == 1 and message in text, f"{name} {content!r}: {text}"
data = int(re.search(r'"data": (\d+)[,}]', TOOL.read_text()).group(1))
core, kernels = (int(re.search(rf"^{what}_LINES = (\d+)", TOOL.read_text(), re.MULTILINE).group(1)) for what in ("CORE", "KERNEL"))
code, text = run({**CLEAN, **{f"src/freight/ir/f{i}.cpp": "\n" * 690 for i in range(core // 690 + 1)}})
assert code == 1 and "core has" in text, text
code, text = run({**CLEAN, **{f"src/freight/backend/cpu/kernels/f{i}.cpp": "\n" * 690 for i in range(kernels // 690 + 1)}})
assert code == 1 and "backend/cpu/kernels/ has" in text and "core has" not in text, text
code, text = run({**CLEAN, **{f"python/src/f{i}.cpp": "\n" * 625 for i in range(8)}})
assert code == 1 and "python/src (arrays) has 5000 lines, allowed are fewer than 5000" in text, text
code, text = run({**CLEAN, **{f"python/src/{f}{i}.cpp": "\n" * 600 for f in ("f", "train_f", "tables_f", "ranks_f") for i in range(8)}})
assert code == 0 and "long: python/src (arrays): 4800 lines of 5000" in text, text
code, text = run({**CLEAN, **{f"src/freight/data/f{i}.cpp": "\n" * 690 for i in range(data // 690 + 1)}})
assert code == 1 and "data has" in text, text
code, text = run({**CLEAN, **{f"src/freight/data/f{i}.cpp": "\n" * 690 for i in range(13)}})
assert code == 0 and "long: data" not in text, text
code, text = run({**CLEAN, **{f"src/freight/data/f{i}.cpp": "\n" * 700 for i in range(data // 700 - 1)}, "src/freight/data/last.cpp": "\n" * 600})
assert code == 0 and f"lines of {data}" in text and "long: data: " in text, text
code, text = run({**CLEAN, "src/freight/ir/a.cpp": "int f(int x) {\n" + "\n" * 61 + "}\n"})
assert code == 0 and "src/freight/ir/a.cpp:1: a function of 62 lines" in text, text
