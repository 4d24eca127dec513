// Rates: what the kernels of one machine reach, measured by `freight calibrate` over kinds, types and sizes. The time
// of other work is interpolated between the nearest measurements.
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
  std::string version, date;  // of Freight and of the measurement: "2026-11-22"
  // The error of whole steps of the calibration's networks, each predicted from the points of the others: |predicted /
  // measured - 1|, as its median and 90th percentile.
  double median_error = 0, p90_error = 0;

  void add(const Point& point);
  size_t size() const;
  // The seconds of one step, interpolated between measured steps of its kind and type; the nearest in the logarithms of
  // their sizes count most. A kind that was not measured is taken for the most similar one: products in f64 at half the
  // rate of f32, factorizations at a fraction of the rate of products (Work::share). Throws Error(usage) without any
  // points.
  double seconds(const Work& work) const;
  double seconds(const std::vector<Work>& work) const;

  std::string to_json() const;
  // Throws Error(data) that names `source`.
  static Rates parse(const std::string& text, const std::string& source);

 private:
  struct Known {
    std::array<double, 5> at{};  // logarithms of sizes, and what distinguishes kinds of kernels
    double cost = 0;             // logarithm of the seconds per FLOP, or per byte
    Point point;
  };
  using Key = std::pair<std::string, DType>;
  // The points to interpolate between, and the factor by which the work takes longer than they do.
  struct Likest {
    const std::vector<Known>* points = nullptr;
    double factor = 1;
  };
  Likest known(const Work& work) const;
  std::map<Key, std::vector<Known>> known_;
};

// The file with this machine's rates: in the cache directory, by CPU and number of threads.
std::string rates_path();
// Loads the rates of this machine; false if it was not calibrated, or with another version of the measurement.
bool own_rates(Rates& out);

struct CalibrationOptions {
  double seconds = 120;  // in total; the smallest batches are measured even if they take longer
  std::vector<DType> types = {DType::f32};
};
struct CalibrationProgress {
  virtual ~CalibrationProgress() = default;
  // Called before a network is measured; false stops with the points so far.
  virtual bool next(size_t number, size_t count, const std::string& net) = 0;
};
// Measures training steps of networks that exist only for that; none is a built-in model. Runs on the default backend.
Rates calibrate(const CalibrationOptions& options, CalibrationProgress& progress);

}  // namespace freight::plan
