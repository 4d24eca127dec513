// The measurements of a run, written three ways: metrics.jsonl and metrics.csv with stable keys, and a TensorBoard
// event file. Every row is on disk when `write` returns. An existing directory is appended to (a resumed run).
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace freight::io {

// One line of metrics. Values that were not measured stay empty: null in JSON, an empty field in CSV.
struct Metrics {
  int64_t step = 0;
  double epoch = 0;
  std::string split = "train";
  std::optional<double> loss = {}, top1 = {}, lr = {}, samples_per_s = {}, data_s = {}, step_s = {};
  std::optional<int64_t> mem_bytes = {};
  // A program's own figure, a further key of the JSON line and tag of TensorBoard; metrics.csv does not have it.
  std::string metric_name = {};
  std::optional<double> metric = {};
  double time = 0;  // seconds since 1970; 0 means now
};

// Whether a program's own figure may have this name: a key that no figure of metrics.jsonl has, in plain characters.
bool is_metric_name(const std::string& name);
// One JSON line without line end. A value that is not finite is null, and the line has "nonfinite":true.
std::string to_json_line(const Metrics& m);
// Reads what to_json_line wrote; a loss that was not finite is NaN again. None for a line that is no row of metrics.
std::optional<Metrics> from_json_line(const std::string& line);

struct MetricsFile {
  std::vector<Metrics> rows;
  std::vector<int64_t> damaged;  // numbers from 1 of lines that are no rows: a run that was killed may cut the last one
};
// A metrics.jsonl. Throws Error(data) where it cannot be read.
MetricsFile read_metrics(const std::string& path);

class MetricsWriter {
 public:
  // `last_step` is the step from which a run goes on: TensorBoard then forgets what earlier event files hold beyond it.
  // Throws Error(runtime) when the directory cannot be made or written.
  explicit MetricsWriter(const std::string& dir, std::optional<int64_t> last_step = {});
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;
  void write(Metrics m);

 private:
  struct Sink;
  std::unique_ptr<Sink> jsonl_, csv_, events_;
};

// CRC-32C (Castagnoli) and the masking of the event file's framing.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);
// Record of an event file: u64 length, masked CRC of it, payload, masked CRC of it.
std::string event_record(std::string_view payload);

}  // namespace freight::io
