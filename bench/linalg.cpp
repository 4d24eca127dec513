// Rates of the CPU backend's factorizations and triangular solves beside the matrix product's: one line of JSON per
// op, type and extent. bench/compare_linalg.py runs it in turns with SciPy.
//   bench_linalg [--op lu,cholesky,qr,triangular,solve,mixed] [--dtype f64,f32] [--n 16,...] [--batch 1] [--repeat 20]
#include <cstdio>
#include <cstdlib>
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
// n, 1) for `solve` and `mixed`, which is what solving one system takes.
Work work_of(const std::string& op, const std::string& dtype, int64_t batch, int64_t n) {
  const double cube = static_cast<double>(batch) * static_cast<double>(n * n) * static_cast<double>(n);
  const std::string type = cat(dtype, "[", batch, ",", n, ",", n, "]"), row = cat("i32[", batch, ",", n, "]");
  const std::string one = cat(dtype, "[", batch, ",", n, ",1]");
  const std::string head = cat("graph {\n %0 = input \"x\" : ", type,
                               "\n %1 = input \"b\" : ", op == "solve" || op == "mixed" ? one : type, "\n");
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
  if (op == "solve") return {cat(head, " %2 = solve(%0, %1) {mixed=false} : ", one, "\n return %2 }"), 2 * cube / 3};
  if (op == "mixed") {
    return {cat(head, " %2, %3 = solve(%0, %1) {mixed=true} : ", one, ", i64[", batch, "]\n return %2, %3 }"),
            2 * cube / 3};
  }
  std::fprintf(stderr, "bench_linalg: no op '%s'; need product, lu, cholesky, qr, triangular, solve or mixed\n",
               op.c_str());
  std::exit(2);
}

Array operand(const Type& type, int64_t n) {
  Array a(type.dtype, type.shape);
  PhiloxStream random(1, 0, 1);
  const bool matrices = type.shape.back() == n;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const int64_t row = i / n % n, column = i % n;
    const float v = matrices && row == column ? static_cast<float>(n) : random.uniform(-1, 1) / 2;
    if (type.dtype == DType::f64) {
      a.data<double>()[i] = static_cast<double>(v);
    } else {
      a.data<float>()[i] = v;
    }
  }
  for (int64_t i = 0; i < a.numel() && matrices; ++i) {  // symmetric
    const int64_t row = i / n % n, column = i % n, mirror = i + (column - row) * (n - 1);
    if (row < column) continue;
    if (type.dtype == DType::f64) {
      a.data<double>()[mirror] = a.data<double>()[i];
    } else {
      a.data<float>()[mirror] = a.data<float>()[i];
    }
  }
  return a;
}

struct Timing {
  double seconds, flops;
  std::string kernel;
};

Timing time_of(const std::string& op, const std::string& dtype, int64_t batch, int64_t n, int repetitions) {
  const Work work = work_of(op, dtype, batch, n);
  const Graph graph = parse(work.graph);
  const auto plan = plan_for(graph);
  Executable step(plan, {});
  std::vector<Array> inputs, outputs;
  for (Value v : graph.leaves(Op::input)) inputs.push_back(operand(graph.type(v), n));
  for (Value v : graph.outputs) outputs.emplace_back(graph.type(v).dtype, graph.type(v).shape);
  step.run(inputs, outputs);
  std::string kernels;
  for (const PlanStep& s : plan->steps()) kernels += cat(kernels.empty() ? "" : " ", s.kernel->name());
  return {best_seconds([&] { step.run(inputs, outputs); }, repetitions), work.flops, kernels};
}

}  // namespace

int main(int argc, char** argv) {
  std::string ops = "lu,cholesky,qr,triangular,solve", dtypes = "f64,f32",
              extents = "16,32,64,128,200,400,800,1000,2000";
  int64_t batch = 1;
  int repetitions = 20;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--op") {
      ops = value;
    } else if (flag == "--dtype") {
      dtypes = value;
    } else if (flag == "--n") {
      extents = value;
    } else if (flag == "--batch") {
      batch = std::stoll(value);
    } else if (flag == "--repeat") {
      repetitions = std::stoi(value);
    } else {
      std::fprintf(stderr, "bench_linalg: unknown flag '%s'; need --op, --dtype, --n, --batch or --repeat\n", argv[i]);
      return 2;
    }
  }
  for (const std::string& dtype : parts(dtypes)) {
    for (const std::string& extent : parts(extents)) {
      const int64_t n = std::stoll(extent);
      const Timing product = time_of("product", dtype, batch, n, repetitions);
      for (const std::string& op : parts(ops)) {
        const Timing t = time_of(op, dtype, batch, n, repetitions);
        const double rate = t.flops / t.seconds, of_product = rate / (product.flops / product.seconds);
        std::printf(
            "{\"op\": \"%s\", \"dtype\": \"%s\", \"n\": %lld, \"batch\": %lld, \"threads\": %d, \"seconds\": %.9f, "
            "\"gflops\": %.3f, \"share_of_product\": %.3f, \"kernel\": \"%s\"}\n",
            op.c_str(), dtype.c_str(), static_cast<long long>(n), static_cast<long long>(batch), thread_count(),
            t.seconds, rate / 1e9, of_product, t.kernel.c_str());
        std::fflush(stdout);
      }
    }
  }
}
