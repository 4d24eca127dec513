// The counters of a server, as text for Prometheus (exposition format 0.0.4). Counting is lock-free, since every
// request does it.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace freight::serve {

// Counts values up to each bound, and those above the last one.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void add(double value);
  // Writes NAME_bucket, NAME_sum and NAME_count; `labels` is "model=\"m\"" or "".
  void write(std::string& out, const std::string& name, const std::string& labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<int64_t>> counts_;  // one more than the bounds
  std::atomic<double> sum_{0};
};

// The counters of one model.
struct ModelMetrics {
  std::atomic<int64_t> requests{0}, failures{0}, samples{0}, batches{0}, waiting{0};
  Histogram batch_size{{1, 2, 4, 8, 16, 32, 64, 128, 256}};
  // Seconds from a request's last byte to its response; in the queue; of a batch's forward pass.
  Histogram request_seconds{kSeconds}, queue_seconds{kSeconds}, compute_seconds{kSeconds};

  static const std::vector<double> kSeconds;
};

// The counters of the connections.
struct HttpMetrics {
  static constexpr int kStatuses = 600;
  std::array<std::atomic<int64_t>, kStatuses> responses{};  // by status
  std::atomic<int64_t> connections{0}, accepted{0}, refused{0};
};

struct NamedMetrics {
  std::string model;
  const ModelMetrics* metrics;
};
// The text of all counters, and of the process's resident memory.
std::string metrics_text(const std::vector<NamedMetrics>& models, const HttpMetrics& http, double uptime_seconds);

}  // namespace freight::serve
