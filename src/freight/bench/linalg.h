// Times of factorizations and solves beside the rate of the matrix product. The best of all runs counts. N rows and
// columns, B matrices.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "freight/base/dtype.h"
#include "freight/bench/output.h"

namespace freight::bench {

// "lu", "cholesky", "qr", "solve", "eigh", "svd". The product is no choice: it is always measured, as "product".
std::vector<std::string> linalg_ops();

struct LinalgOptions {
  std::vector<std::string> ops = linalg_ops();
  std::vector<DType> dtypes = {DType::f64, DType::f32};
  std::vector<int64_t> extents;                // rising
  int64_t batch = 1;                           // matrices at a time
  std::vector<std::string> devices = {"cpu"};  // the first is what the others are held against
  int threads = 0;                             // of the CPU; 0: all
  double seconds = 1;                          // per figure
  double most_seconds = 60;                    // of one run, by the extent before: larger ones are left out
};

struct LinalgFigure {
  std::string op, device;
  DType dtype = DType::f64;
  int64_t n = 0, batch = 1;
  double flops = 0;         // of one run, of the graph that is traced
  double seconds = 0;       // of the best run; 0: there is none, `skipped` says why
  double product_rate = 0;  // FLOPs per second of the product of this extent
  std::string skipped = {};
  double rate() const { return seconds > 0 ? flops / seconds : 0; }
};

struct LinalgTimes {
  std::string machine;
  int threads = 0;
  std::vector<LinalgFigure> figures = {};
};

// Called with what comes next; false stops with what there is.
using LinalgProgress = std::function<bool(const std::string& what)>;

// Throws Error(usage) for an op that is none of linalg_ops(), Error(device) for a device that is not there, before
// anything is run. What a device refuses, or would take too long, is left out with its reason.
LinalgTimes time_linalg(const LinalgOptions& options, const LinalgProgress& progress);

// The extent from which on `device` takes less time than `base` at all measured ones. Null where it does at none, or
// where none was measured on both.
std::optional<int64_t> wins_from(const LinalgTimes& times, const std::string& base, const std::string& device,
                                 const std::string& op, DType dtype);

Listing figures_of(const LinalgTimes& times);
// From which extent on each device wins against the first, a sentence per op and type.
std::vector<std::string> findings(const LinalgTimes& times);
std::string to_json(const LinalgTimes& times);

}  // namespace freight::bench
