// Rates: what the kernels of one machine reach, measured by `freight calibrate` over kinds, types and sizes, and the
// time of other work interpolated between the nearest of them.
#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "freight/plan/work.h"

namespace freight::plan {

// One measured step.
struct Point {
  Work work;
  double seconds = 0;
};

class Rates {
 public:
  std::string device;  // cpu_info().model
  int threads = 0;
  std::string version, date;  // of Freight; "2026-11-22"
  // The error of whole steps of the calibration's nets, each predicted from the points of the others:
  // |predicted / measured - 1|, its median and what nine of ten are within.
  double median_error = 0, p90_error = 0;

  void add(const Point& point);
  size_t size() const;
  // Seconds of one step: measured ones of its kind and type, the nearest in the logarithms of their sizes counting
  // most. Kinds that were never measured are taken for the likest that was: products in f64 at half the rate of f32,
  // factorizations at a share of that of products (Work::share). Throws Error(usage) without any points.
  double seconds(const Work& work) const;
  double seconds(const std::vector<Work>& work) const;

  std::string to_json() const;
  // Throws Error(data) naming `source`.
  static Rates parse(const std::string& text, const std::string& source);

 private:
  struct Known {
    std::array<double, 5> at{};  // logarithms of sizes, and what tells kinds of kernels apart
    double cost = 0;             // logarithm of seconds per FLOP, or per byte
    Point point;
  };
  using Key = std::pair<std::string, DType>;
  // Points to interpolate between, and the times by which the work takes longer than they say.
  struct Likest {
    const std::vector<Known>* points = nullptr;
    double factor = 1;
  };
  Likest known(const Work& work) const;
  std::map<Key, std::vector<Known>> known_;
};

// Where the machine's own rates are kept: in the cache directory, by processor and number of threads.
std::string rates_path();
// Those of this machine; false where it was not calibrated, or by another version of the measurement.
bool own_rates(Rates& out);

struct CalibrationOptions {
  double seconds = 120;  // in all; the smallest batches are measured even where they take longer
  std::vector<DType> types = {DType::f32};
};
struct CalibrationProgress {
  virtual ~CalibrationProgress() = default;
  // Before a net is measured; false stops with what there is.
  virtual bool next(size_t number, size_t count, const std::string& net) = 0;
};
// Measures training steps of nets made for that alone, none of them a named model. Runs on the default backend.
Rates calibrate(const CalibrationOptions& options, CalibrationProgress& progress);

}  // namespace freight::plan
