// Times of factorizations and solves, compared with the rate of the matmul. The best run counts. N rows and columns, B
// matrices.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "freight/base/dtype.h"
#include "freight/bench/output.h"

namespace freight::bench {

// The operations that can be chosen: "lu", "cholesky", "qr", "solve", "eigh", "svd". The matmul is always measured, as
// "product".
std::vector<std::string> linalg_ops();

struct LinalgOptions {
  std::vector<std::string> ops = linalg_ops();
  std::vector<DType> dtypes = {DType::f64, DType::f32};
  std::vector<int64_t> extents;                // ascending
  int64_t batch = 1;                           // matrices at a time
  std::vector<std::string> devices = {"cpu"};  // the others are compared with the first
  int threads = 0;                             // of the CPU; 0: all
  double seconds = 1;                          // per figure
  double most_seconds = 60;                    // per run, estimated from the size before: larger ones are skipped
};

struct LinalgFigure {
  std::string op, device;
  DType dtype = DType::f64;
  int64_t n = 0, batch = 1;
  double flops = 0;         // of one run, by the traced graph
  double seconds = 0;       // of the best run; 0: not known, see `skipped`
  double product_rate = 0;  // FLOPs per second of the matmul of this size
  std::string skipped = {};
  double rate() const { return seconds > 0 ? flops / seconds : 0; }
};

struct LinalgTimes {
  std::string machine;
  int threads = 0;
  std::vector<LinalgFigure> figures = {};
};

// Called before each measurement with its name; false stops with the results so far.
using LinalgProgress = std::function<bool(const std::string& what)>;

// Throws Error(usage) for an unknown operation, and Error(device) for a device that does not exist, before anything is
// run. Operations that a device refuses, or that would take too long, are skipped with a reason.
LinalgTimes time_linalg(const LinalgOptions& options, const LinalgProgress& progress);

// The size from which on `device` is faster than `base` at all measured sizes. Empty if there is none, or none was
// measured on both.
std::optional<int64_t> wins_from(const LinalgTimes& times, const std::string& base, const std::string& device,
                                 const std::string& op, DType dtype);

Listing figures_of(const LinalgTimes& times);
// The size from which on each device is faster than the first, a sentence per operation and type.
std::vector<std::string> findings(const LinalgTimes& times);
std::string to_json(const LinalgTimes& times);

}  // namespace freight::bench
