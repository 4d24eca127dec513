#!/usr/bin/env python3
"""Small programs of users: right ones compile, wrong ones are told at the user's line, in words.

usage: tests/user_programs.py COMPILER

A line of a wrong program that ends in `// error: TEXT` must be told by an error at this line that says TEXT; nothing else may be told, at no other
line and in no other file, so that the first line that the compiler prints as an error is always the user's. GCC and clang word their own errors in two
ways: TEXT is looked for in what the library says, or is empty.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RIGHT = {
    "values of compiled functions": """
struct Pair { Tensor a, b; };
struct Outcome { Tensor loss; std::vector<Tensor> all; Pair pair; };
int main() {
  auto f = compile([](const Pair& p, const std::vector<Tensor>& v, const Tensor& x) { return Outcome{p.a + x, v, p}; });
  Outcome out = f(Pair{zeros({2}), ones({2})}, std::vector<Tensor>{zeros({1})}, zeros({2}));
  auto g = compile([](const std::tuple<Tensor, std::array<Tensor, 2>>& t) { return std::tuple(std::get<0>(t), std::pair(std::get<0>(t), std::get<0>(t))); });
  auto [x, pair] = g(std::tuple(out.loss, std::array{out.loss, out.loss}));
  auto generic = compile([](const auto& a, const auto&... more) { return (a + ... + more); });
  generic(x, x, Array::of<float>({1, 2}, {2}));
  auto list = compile([](const std::vector<Tensor>& in) { return in; });
  list({x, pair.first});
  auto nothing = compile([] {});
  nothing();
}""",
    "functions that <cmath> has, too": """
int main() {
  const Tensor x = ones({2});
  const Variable v("v", x);
  const double d = 2;
  const float s = 2;
  const int i = 2;
  static_assert(std::is_same_v<decltype(log(x)), Tensor> && std::is_same_v<decltype(exp(v)), Tensor>);
  static_assert(std::is_same_v<decltype(sqrt(x)), Tensor> && std::is_same_v<decltype(pow(x, 2)), Tensor>);
  static_assert(std::is_same_v<decltype(abs(x)), Tensor> && std::is_same_v<decltype(fmod(x, 2.0)), Tensor>);
  static_assert(!std::is_same_v<decltype(log(d)), Tensor> && !std::is_same_v<decltype(exp(s)), Tensor>);
  static_assert(!std::is_same_v<decltype(sqrt(i)), Tensor> && !std::is_same_v<decltype(pow(d, i)), Tensor>);
  static_assert(!std::is_same_v<decltype(abs(i)), Tensor> && !std::is_same_v<decltype(fmod(d, d)), Tensor>);
  static_assert(!std::is_same_v<decltype(tanh(d)), Tensor> && !std::is_same_v<decltype(floor(s)), Tensor>);
  const Tensor y = log(exp(x) + exp(d)) * sqrt(d) + sin(x) * cos(d) + erf(x) + round(x) + log1p(x) + expm1(x) + log(d);
}""",
    "layers with options inside of a module": """
struct Block : nn::Module {
  nn::Conv2d& conv = add("conv", nn::Conv2d(1, 4, 3, {.padding = 1}));
  nn::Linear& fc = add<nn::Linear>("fc", 4, 3);
  nn::Linear& moved = add<nn::Linear>("moved", nn::Linear(4, 3));
  Tensor forward(const Tensor& x) override { return fc(mean(conv(x), {2, 3})); }
};
int main() {
  static_assert(std::is_same_v<decltype(arange(2.5)), Tensor> && std::is_same_v<decltype(arange(size_t{2})), Tensor>);
  nn::Sequential net(Block(), nn::Linear(size_t{3}, 2));
  enum Column { kFirst, kSecond };
  select(ones({2, 2}), 1, kSecond);
}""",
    "errors are caught by their type": """
int main() {
  try {
    zeros({2}) + zeros({3});
  } catch (const Error& e) {
    return e.kind() == ErrorKind::usage ? e.exit_code() : 0;
  }
}""",
}
WRONG = {
    "values of compiled functions": """
int main() {
  const Tensor x = ones({2});
  auto number = compile([](const Tensor& t) { return t.numel(); });            // error: returns something else than tensors
  auto rate = compile([](const Tensor& t, double lr) { return t * lr; });      // error: takes a number
  auto f = compile([](const Tensor& t) { return t * 2; });
  f(0.5);                                                                      // error: give a number as a tensor
  f(x, x);                                                                     // error: compare their number and types
  f(std::vector<double>{1, 2});                                                // error: takes tensors and arrays
  auto text = compile([](const auto&) { return std::string(); });
  text(x);                                                                     // error: returns something else than tensors
  auto changes = compile([](Tensor& t) { t += 1; });
  changes(x);                                                                  // error: it gets its tensors as const Tensor&
}""",
    "tensors are no numbers": """
int main() {
  Tensor x = ones({2});
  if (x == x) return 1;                    // error: equal(a, b)
  if (x == 0) return 1;                    // error: equal(a, b)
  if (x != 0) return 1;                    // error: equal(a, b)
  if (x > 0) return 1;                     // error: where(x > 0, a, b)
  while (x) return 1;                      // error: where(x > 0, a, b)
  const Tensor y = max(x, 0.0);            // error:
  softmax(x, 0.5);                         // error:
  select(x, 0, 1.9);                       // error:
  slice(x, 0, 0.5, 2);                     // error:
  unsqueeze(x, true);                      // error:
  topk(x, 1.5);                            // error:
  one_hot(x, 2.9);                         // error:
  bincount(x, 2.5);                        // error:
  eye(2.5);                                // error:
  randint(0.5, 1.5, {2});                  // error:
  nn::Linear(2.5, 3);                      // error:
  nn::LSTM(4, 2.5);                        // error:
  nn::MultiheadAttention(8, 2.0);          // error:
  x[0] = y;                                // error:
}""",
}


def source(program):
    return f'#include <cmath>\n#include "freight/freight.h"\nusing namespace freight;\n#line 2 "program.cpp"{program}\n'


def compiled(compiler, folder, name, program):
    path = pathlib.Path(folder) / (re.sub(r"\W+", "_", name) + ".cpp")
    path.write_text(source(program))
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wno-unused", "-I", ROOT / "src", path]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False).stderr


def faults_of(program, said):
    """What a wrong program's errors lack or have too much of."""
    lines = program.split("\n")
    expected = {i + 1: line.split("// error:")[1].strip() for i, line in enumerate(lines) if "// error:" in line}
    told = [(m[1], int(m[2]), m[3]) for m in re.finditer(r"^(\S+?):(\d+):\d+: error: (.*)$", said, re.MULTILINE)]
    for file, line, text in told:
        if file != "program.cpp" or line not in expected:
            yield f"{file}:{line} is told, where nothing of the user's is wrong: {text}"
    for line, text in expected.items():
        if not any(at == line and text in words for _, at, words in told):
            yield f"program.cpp:{line}: no error says '{text}': {lines[line - 1].strip()}"


def main():
    compiler = sys.argv[1]
    faults = []
    with tempfile.TemporaryDirectory(prefix="freight-programs-") as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        right = {name: pool.submit(compiled, compiler, folder, f"right {name}", program) for name, program in RIGHT.items()}
        wrong = {name: pool.submit(compiled, compiler, folder, f"wrong {name}", program) for name, program in WRONG.items()}
        for name, said in right.items():
            if said.result():
                faults.append(f"{name}: does not compile without a word:\n{said.result()[:3000]}")
        for name, said in wrong.items():
            faults += [f"{name}: {fault}" for fault in faults_of(WRONG[name], said.result())]
    print("\n".join(faults) or f"{len(RIGHT)} programs compile, {len(WRONG)} are told what is wrong")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
