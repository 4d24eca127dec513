// Runs and times; linalg_output.cpp has the table and the JSON. See linalg.h.
#include "freight/bench/linalg.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>

#include "freight/backend/backend.h"
#include "freight/base/array.h"
#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/ops/linalg.h"
#include "freight/run/executable.h"
#include "freight/trace/compile.h"

namespace freight::bench {

namespace {

constexpr const char* kProduct = "product";

enum class Operand { any, symmetric, positive };

// An operation as a user calls it on x (B, N, N) and b, and the kind of matrix that it needs.
struct LinalgRow {
  const char* op;
  Operand operand;
  std::vector<Tensor> (*run)(const Tensor& x, const Tensor& b);
};
const LinalgRow kLinalgRows[] = {
    {kProduct, Operand::any, [](const Tensor& x, const Tensor& b) { return std::vector<Tensor>{matmul(x, b)}; }},
    {"lu", Operand::any,
     [](const Tensor& x, const Tensor&) {
       const LuFactor f = lu_factor(x);
       return std::vector<Tensor>{f.lu, f.pivots};
     }},
    {"cholesky", Operand::positive, [](const Tensor& x, const Tensor&) { return std::vector<Tensor>{cholesky(x)}; }},
    {"qr", Operand::any,
     [](const Tensor& x, const Tensor&) {
       const Qr f = qr(x);
       return std::vector<Tensor>{f.q, f.r};
     }},
    {"solve", Operand::any, [](const Tensor& x, const Tensor& b) { return std::vector<Tensor>{solve(x, b)}; }},
    {"eigh", Operand::symmetric,
     [](const Tensor& x, const Tensor&) {
       const Eigh f = eigh(x);
       return std::vector<Tensor>{f.values, f.vectors};
     }},
    {"svd", Operand::any,
     [](const Tensor& x, const Tensor&) {
       const Svd f = svd(x, {.full_matrices = false});
       return std::vector<Tensor>{f.u, f.s, f.vh};
     }},
};

const LinalgRow& linalg_row(const std::string& op) {
  for (const LinalgRow& r : kLinalgRows) {
    if (op == r.op) return r;
  }
  refuse_name("--op", op, linalg_ops());
}

// Random numbers between -1 and 1. A matrix with N on its diagonal is positive definite, since the other elements of a
// row add up to less.
Array random_matrices(DType dtype, const Shape& shape, Operand operand) {
  const Array a(dtype, shape);
  const int64_t rows = shape[1], columns = shape[2];  // (B, rows, columns)
  const auto fill = [&](auto* to) {
    PhiloxStream random(1, 0, 1);
    for (int64_t i = 0; i < a.numel(); ++i) {
      const int64_t row = i / columns % rows, column = i % columns;
      to[i] = random.uniform(-1, 1);
      if (operand == Operand::any) continue;
      if (row > column) to[i] = to[i + (column - row) * (columns - 1)];
      if (row == column && operand == Operand::positive) to[i] = static_cast<float>(rows);
    }
  };
  if (dtype == DType::f64) {
    fill(a.data<double>());
  } else {
    fill(a.data<float>());
  }
  return a;
}

// Freight's operation, planned, with its memory.
class OwnCall {
 public:
  OwnCall(const LinalgRow& row, const std::string& device, const Array& x, const Array& b)
      : step_(row.run, {.backend = device}), in_{x, b}, memory_(backend(device).memory()) {
    const Graph& graph = step_.graph(x, b);
    for (const Node& node : graph.nodes) flops_ += cost(graph, node).flops;
    run_ = &step_.executable(x, b);
    for (const Value v : graph.outputs) out_.emplace_back(graph.type(v).dtype, graph.type(v).shape);
    if (memory_) run();  // drivers compile kernels at their first run (PoCL takes about 0.4 s each)
  }
  double run() {
    const auto start = std::chrono::steady_clock::now();
    run_->run(in_, out_);
    if (memory_) memory_->wait();
    return seconds_since(start);
  }
  double flops() const { return flops_; }

 private:
  Compiled<decltype(LinalgRow::run)> step_;
  std::vector<Array> in_, out_;
  std::shared_ptr<DeviceMemory> memory_;
  Executable* run_ = nullptr;
  double flops_ = 0;
};

// The best time of runs that take `seconds` together. The first run is warm-up, and counts only if it takes all the
// time.
double best_of_runs(OwnCall& call, double seconds) {
  double spent = call.run();
  double best = spent >= seconds ? spent : std::numeric_limits<double>::infinity();
  while (spent < seconds || best == std::numeric_limits<double>::infinity()) {
    const double took = call.run();
    best = std::min(best, took);
    spent += took;
  }
  return best;
}

// The estimated seconds of a run, from those of the size before; 0 if there are none.
double expected_seconds(const std::vector<LinalgFigure>& figures, const LinalgFigure& f) {
  double expected = 0;
  for (const LinalgFigure& before : figures) {
    if (before.op != f.op || before.device != f.device || before.dtype != f.dtype) continue;
    const double times = static_cast<double>(f.n) / static_cast<double>(before.n);
    expected = before.seconds * times * times * times;
  }
  return expected;
}

void measure_figure(const LinalgOptions& options, LinalgFigure& f) {
  const LinalgRow& row = linalg_row(f.op);
  const int64_t columns = f.op == kProduct ? f.n : 1;
  const Array x = random_matrices(f.dtype, {f.batch, f.n, f.n}, row.operand);
  const Array b = random_matrices(f.dtype, {f.batch, f.n, columns}, Operand::any);
  OwnCall own(row, f.device, x, b);
  f.flops = own.flops();
  f.seconds = best_of_runs(own, options.seconds);
}

void check_linalg(const LinalgOptions& options) {
  for (const std::string& op : options.ops) {
    if (op == kProduct || linalg_row(op).op == nullptr) {
      fail(ErrorKind::usage, "--op", "product is always measured: expected one of ", join(linalg_ops(), ", "));
    }
  }
  for (const std::string& device : options.devices) backend(device);
}

}  // namespace

std::vector<std::string> linalg_ops() {
  std::vector<std::string> names;
  for (const LinalgRow& r : kLinalgRows) {
    if (r.op != std::string(kProduct)) names.emplace_back(r.op);
  }
  return names;
}

LinalgTimes time_linalg(const LinalgOptions& options, const LinalgProgress& progress) {
  check_linalg(options);
  const ThreadLimit limit(options.threads > 0 ? options.threads : thread_count());
  LinalgTimes times{.machine = cpu_info().model, .threads = thread_count()};
  std::vector<std::string> ops = {kProduct};
  ops.insert(ops.end(), options.ops.begin(), options.ops.end());
  for (const std::string& device : options.devices) {
    for (const DType dtype : options.dtypes) {
      for (const int64_t n : options.extents) {
        double product_rate = 0;
        for (const std::string& op : ops) {
          LinalgFigure f{.op = op, .device = device, .dtype = dtype, .n = n, .batch = options.batch};
          if (!progress(cat(device, ", ", op, " ", to_string(dtype), ", n ", n))) return times;
          const double expected = expected_seconds(times.figures, f);
          if (expected > options.most_seconds) {
            f.skipped = cat("a run would take about ", fixed(expected, 0), " s (--most-seconds)");
          } else {
            try {
              measure_figure(options, f);
            } catch (const Error& e) {
              if (e.kind() == ErrorKind::runtime) throw;  // an error, not a refusal
              f.skipped = e.message();
            }
          }
          if (op == kProduct) product_rate = f.rate();
          f.product_rate = product_rate;
          times.figures.push_back(std::move(f));
        }
      }
    }
  }
  return times;
}

}  // namespace freight::bench
