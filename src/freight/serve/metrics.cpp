// See metrics.h.
#include "freight/serve/metrics.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "freight/base/strings.h"

namespace freight::serve {

namespace {

int64_t resident_bytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

void head(std::string& out, const char* name, const char* type, const char* help) {
  out += cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

}  // namespace

const std::vector<double> ModelMetrics::kSeconds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                    0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5};

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::add(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

void Histogram::write(std::string& out, const std::string& name, const std::string& labels) const {
  int64_t count = 0;
  const std::string before = labels.empty() ? "" : labels + ",";
  for (size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i].load(std::memory_order_relaxed);
    out += cat(name, "_bucket{", before, "le=\"", i < bounds_.size() ? cat(bounds_[i]) : "+Inf", "\"} ", count, "\n");
  }
  const std::string braces = labels.empty() ? "" : cat("{", labels, "}");
  out += cat(name, "_sum", braces, " ", sum_.load(std::memory_order_relaxed), "\n");
  out += cat(name, "_count", braces, " ", count, "\n");
}

std::string metrics_text(const std::vector<NamedMetrics>& models, const HttpMetrics& http, double uptime_seconds) {
  std::string out;
  const auto per_model = [&](const char* name, const char* type, const char* help,
                             std::atomic<int64_t> ModelMetrics::*value) {
    head(out, name, type, help);
    for (const NamedMetrics& m : models) {
      out += cat(name, "{model=\"", m.model, "\"} ", (m.metrics->*value).load(), "\n");
    }
  };
  const auto histogram = [&](const char* name, const char* help, Histogram ModelMetrics::*value) {
    head(out, name, "histogram", help);
    for (const NamedMetrics& m : models) (m.metrics->*value).write(out, name, cat("model=\"", m.model, "\""));
  };
  const auto single = [&](const char* name, const char* type, const char* help, auto value) {
    head(out, name, type, help);
    out += cat(name, " ", value, "\n");
  };
  per_model("freight_requests_total", "counter", "Requests for predictions.", &ModelMetrics::requests);
  per_model("freight_request_errors_total", "counter", "Those of them that were refused or failed.",
            &ModelMetrics::failures);
  per_model("freight_samples_total", "counter", "Samples predicted.", &ModelMetrics::samples);
  per_model("freight_batches_total", "counter", "Batches that were run.", &ModelMetrics::batches);
  per_model("freight_queue_samples", "gauge", "Samples that wait for a batch.", &ModelMetrics::waiting);
  histogram("freight_batch_size", "Samples per batch, without padding.", &ModelMetrics::batch_size);
  histogram("freight_request_seconds", "From a request's last byte to its response.", &ModelMetrics::request_seconds);
  histogram("freight_queue_seconds", "Waiting for a batch.", &ModelMetrics::queue_seconds);
  histogram("freight_compute_seconds", "Running a batch.", &ModelMetrics::compute_seconds);
  head(out, "freight_http_responses_total", "counter", "Responses by status.");
  for (size_t status = 0; status < http.responses.size(); ++status) {
    if (const int64_t n = http.responses[status].load(); n > 0) {
      out += cat("freight_http_responses_total{code=\"", status, "\"} ", n, "\n");
    }
  }
  single("freight_connections", "gauge", "Open connections.", http.connections.load());
  single("freight_connections_total", "counter", "Connections that were accepted.", http.accepted.load());
  single("freight_connections_refused_total", "counter", "Connections beyond the limit.", http.refused.load());
  single("freight_uptime_seconds", "gauge", "Since the server was ready.", uptime_seconds);
  single("process_resident_memory_bytes", "gauge", "Memory of the process.", resident_bytes());
  return out;
}

}  // namespace freight::serve
