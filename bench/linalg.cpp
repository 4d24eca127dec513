// Rates of the CPU backend's factorizations and triangular solves beside the matrix product's: one line of JSON per
// op, type and extent. bench/compare_linalg.py runs it in turns with SciPy. Of `solve` it also prints the
// residual |b - a x| / (n eps |a| |x|) of the largest numbers of the first matrix.
//   bench_linalg [--op lu,cholesky,qr,triangular,solve] [--dtype f64,f32] [--n 16,...] [--batch 1] [--repeat 20]
//                [--matrix dominant|random]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"
#include "timing.h"

using namespace freight;

namespace {

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> all;
  std::stringstream from(text);
  for (std::string part; std::getline(from, part, ',');) all.push_back(part);
  return all;
}

struct Work {
  std::string graph;
  double flops;
};

// The graph of one op over x (batch, n, n), a symmetric matrix with a heavy diagonal, and b: (batch, n, n), or (batch,
// n, 1) for `solve`, which is what solving one system takes.
Work work_of(const std::string& op, const std::string& dtype, int64_t batch, int64_t n) {
  const double cube = static_cast<double>(batch) * static_cast<double>(n * n) * static_cast<double>(n);
  const std::string type = cat(dtype, "[", batch, ",", n, ",", n, "]"), row = cat("i32[", batch, ",", n, "]");
  const std::string one = cat(dtype, "[", batch, ",", n, ",1]");
  const std::string head =
      cat("graph {\n %0 = input \"x\" : ", type, "\n %1 = input \"b\" : ", op == "solve" ? one : type, "\n");
  const std::string lu = cat(" %2, %3, %4 = lu_factor(%0) {refuse_singular=true} : ", type, ", ", row, ", ", row, "\n");
  const auto triangular = [](const char* upper, const char* unit) {
    return cat(" {upper=", upper, ", transposed=false, unit_diagonal=", unit,
               ", right=false, refuse_singular=false} : ");
  };
  if (op == "product") return {cat(head, " %2 = matmul(%0, %1) : ", type, "\n return %2 }"), 2 * cube};
  if (op == "lu") return {cat(head, lu, " return %2, %3, %4 }"), 2 * cube / 3};
  if (op == "cholesky") return {cat(head, " %2 = cholesky(%0) {upper=false} : ", type, "\n return %2 }"), cube / 3};
  if (op == "qr") {
    return {cat(head, " %2, %3 = qr(%0) {complete=false} : ", type, ", ", type, "\n return %2, %3 }"), 8 * cube / 3};
  }
  if (op == "triangular")
    return {cat(head, " %2 = solve_triangular(%0, %1)", triangular("false", "false"), type, "\n return %2 }"), cube};
  if (op == "solve") return {cat(head, " %2 = solve(%0, %1) : ", one, "\n return %2 }"), 2 * cube / 3};
  std::fprintf(stderr, "bench_linalg: no op '%s'; need product, lu, cholesky, qr, triangular or solve\n", op.c_str());
  std::exit(2);
}

// Symmetric with a heavy diagonal, so that all ops take it; or numbers between -1/2 and 1/2 alone.
enum class Content { dominant, random };

double number_at(const Array& a, int64_t i) {
  return a.dtype() == DType::f64 ? a.data<double>()[i] : static_cast<double>(a.data<float>()[i]);
}

Array operand(const Type& type, int64_t n, Content content) {
  Array a(type.dtype, type.shape);
  PhiloxStream random(1, 0, 1);
  const bool dominant = type.shape.back() == n && content == Content::dominant;
  const auto fill = [&](auto* to) {
    for (int64_t i = 0; i < a.numel(); ++i) {
      const int64_t row = i / n % n, column = i % n;
      to[i] = dominant && row == column ? static_cast<float>(n) : random.uniform(-1, 1) / 2;
    }
    for (int64_t i = 0; i < a.numel() && dominant; ++i) {  // symmetric
      const int64_t row = i / n % n, column = i % n;
      if (row >= column) to[i + (column - row) * (n - 1)] = to[i];
    }
  };
  if (type.dtype == DType::f64) {
    fill(a.data<double>());
  } else {
    fill(a.data<float>());
  }
  return a;
}

double residual(const Array& a, const Array& b, const Array& x, int64_t n) {
  double most = 0, of_a = 0, of_x = 0;
  for (int64_t i = 0; i < n; ++i) {
    double rest = number_at(b, i), sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      rest -= number_at(a, i * n + k) * number_at(x, k);
      sum += std::fabs(number_at(a, i * n + k));
    }
    most = std::max(most, std::fabs(rest));
    of_a = std::max(of_a, sum);
    of_x = std::max(of_x, std::fabs(number_at(x, i)));
  }
  const double epsilon = a.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                                 : static_cast<double>(std::numeric_limits<float>::epsilon());
  return most / (static_cast<double>(n) * epsilon * of_a * of_x);
}

struct Problem {
  std::string op, dtype;
  int64_t n = 0, batch = 1;
  Content content = Content::dominant;
  int repetitions = 20;
};

struct Timing {
  double seconds, flops;
  std::string kernel, accuracy;  // JSON
};

Timing time_of(const Problem& p) {
  const Work work = work_of(p.op, p.dtype, p.batch, p.n);
  const Graph graph = parse(work.graph);
  const auto plan = plan_for(graph);
  Executable step(plan, {});
  std::vector<Array> inputs, outputs;
  for (Value v : graph.leaves(Op::input)) inputs.push_back(operand(graph.type(v), p.n, p.content));
  for (Value v : graph.outputs) outputs.emplace_back(graph.type(v).dtype, graph.type(v).shape);
  step.run(inputs, outputs);
  std::string kernels, accuracy;
  for (const PlanStep& s : plan->steps()) kernels += cat(kernels.empty() ? "" : " ", s.kernel->name());
  if (p.op == "solve") accuracy = cat(", \"residual\": ", residual(inputs[0], inputs[1], outputs[0], p.n));
  return {best_seconds([&] { step.run(inputs, outputs); }, p.repetitions), work.flops, kernels, accuracy};
}

}  // namespace

int main(int argc, char** argv) {
  std::string ops = "lu,cholesky,qr,triangular,solve", dtypes = "f64,f32",
              extents = "16,32,64,128,200,400,800,1000,2000";
  Problem p;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--op") {
      ops = value;
    } else if (flag == "--dtype") {
      dtypes = value;
    } else if (flag == "--n") {
      extents = value;
    } else if (flag == "--batch") {
      p.batch = std::stoll(value);
    } else if (flag == "--repeat") {
      p.repetitions = std::stoi(value);
    } else if (flag == "--matrix" && (value == "dominant" || value == "random")) {
      p.content = value == "random" ? Content::random : Content::dominant;
    } else {
      std::fprintf(
          stderr,
          "bench_linalg: unknown flag or value '%s %s'; need --op, --dtype, --n, --batch, --repeat or --matrix "
          "dominant|random\n",
          argv[i], argv[i + 1]);
      return 2;
    }
  }
  for (const std::string& dtype : parts(dtypes)) {
    for (const std::string& extent : parts(extents)) {
      p.dtype = dtype;
      p.n = std::stoll(extent);
      p.op = "product";
      const Timing product = time_of(p);
      for (const std::string& op : parts(ops)) {
        p.op = op;
        const Timing t = time_of(p);
        const double rate = t.flops / t.seconds, of_product = rate / (product.flops / product.seconds);
        std::printf(
            "{\"op\": \"%s\", \"dtype\": \"%s\", \"n\": %lld, \"batch\": %lld, \"threads\": %d, \"seconds\": %.9f, "
            "\"gflops\": %.3f, \"share_of_product\": %.3f, \"kernel\": \"%s\"%s}\n",
            op.c_str(), dtype.c_str(), static_cast<long long>(p.n), static_cast<long long>(p.batch), thread_count(),
            t.seconds, rate / 1e9, of_product, t.kernel.c_str(), t.accuracy.c_str());
        std::fflush(stdout);
      }
    }
  }
}
