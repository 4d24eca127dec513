// See metrics.h. The event file's protocol buffers are written by hand: Event{1: double wall_time, 2: int64 step,
// 3: string file_version, 5: Summary{1: Value{1: string tag, 2: float simple_value}},
// 7: SessionLog{1: status, 1 is START}}.
#include "freight/io/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/io/little_endian_internal.h"

namespace freight::io {

namespace {
double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Key and value of each that may be missing; M is Metrics or const Metrics.
template <class M>
auto values(M& m) {
  using Value = std::conditional_t<std::is_const_v<M>, const std::optional<double>, std::optional<double>>;
  using Named = std::pair<const char*, Value*>;
  return std::array<Named, 6>{{{"loss", &m.loss},
                               {"top1", &m.top1},
                               {"lr", &m.lr},
                               {"samples_per_s", &m.samples_per_s},
                               {"data_s", &m.data_s},
                               {"step_s", &m.step_s}}};
}

void put_varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>((v & 0x7f) | 0x80);
  out += static_cast<char>(v);
}
void put_text(std::string& out, int field, std::string_view text) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, text.size());
  out += text;
}
std::string event_head(double time, int64_t step) {
  std::string out;
  put_varint(out, 1 << 3 | 1);
  put_little_endian(out, std::bit_cast<uint64_t>(time), 8);
  put_varint(out, 2 << 3 | 0);
  put_varint(out, static_cast<uint64_t>(step));
  return out;
}
std::string summary_value(std::string_view tag, double value) {
  std::string v;
  put_text(v, 1, tag);
  put_varint(v, 2 << 3 | 5);
  put_little_endian(v, std::bit_cast<uint32_t>(static_cast<float>(value)), 4);
  std::string out;
  put_text(out, 1, v);
  return out;
}

std::string csv_line(const Metrics& m) {
  std::string out = cat(m.step, ",", m.epoch, ",", m.split);
  for (const auto& [name, value] : values(m)) out += *value ? cat(",", **value) : ",";
  out += m.mem_bytes ? cat(",", *m.mem_bytes) : ",";
  return out + cat(",", fixed(m.time, 3), "\n");
}

}  // namespace

// An append-only file; each `append` is one write call.
struct MetricsWriter::Sink {
  explicit Sink(std::string p) : path(std::move(p)) {
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0) fail(ErrorKind::runtime, path, "cannot write: ", std::strerror(errno));
  }
  ~Sink() { ::close(fd); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  void append(const std::string& text) {
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(ErrorKind::runtime, path, "cannot write: ", std::strerror(errno));
      done += static_cast<size_t>(n);
    }
  }
  bool empty() const { return ::lseek(fd, 0, SEEK_END) <= 0; }
  std::string path;
  int fd = -1;
};

bool is_metric_name(const std::string& name) {
  for (const char* known : {"step", "epoch", "split", "mem_bytes", "time", "nonfinite"}) {
    if (name == known) return false;
  }
  const Metrics m;
  for (const auto& [known, value] : values(m)) {
    if (name == known) return false;
  }
  const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), plain);
}

std::string to_json_line(const Metrics& m) {
  bool finite = true;
  nlohmann::ordered_json j;
  const auto put = [&](const char* key, const std::optional<double>& v) {
    j[key] = nullptr;
    if (!v) return;
    if (std::isfinite(*v)) {
      j[key] = *v;
    } else {
      finite = false;
    }
  };
  j["step"] = m.step;
  put("epoch", m.epoch);
  j["split"] = m.split;
  for (const auto& [name, value] : values(m)) put(name, *value);
  j["mem_bytes"] = nullptr;
  if (m.mem_bytes) j["mem_bytes"] = *m.mem_bytes;
  if (!m.metric_name.empty()) put(m.metric_name.c_str(), m.metric);
  put("time", m.time);
  if (!finite) j["nonfinite"] = true;
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<Metrics> from_json_line(const std::string& line) {
  const auto document = try_parse_json<nlohmann::json>(line);
  if (!document || !document->is_object()) return std::nullopt;
  const nlohmann::json& j = *document;
  Metrics m;
  try {
    const auto count = [](const nlohmann::json& of) -> std::optional<int64_t> {
      constexpr double kMost = 0x1p53;  // further ones are no counts, and 2^63 becomes a negative number
      const bool sound = of.is_number_integer() && of.get<double>() >= 0 && of.get<double>() <= kMost;
      return sound ? std::optional(of.get<int64_t>()) : std::nullopt;
    };
    const auto step = count(j.at("step"));
    if (!step) return std::nullopt;
    m.step = *step;
    m.split = j.at("split").get<std::string>();
    const auto number = [&](const char* key) -> std::optional<double> {
      const auto it = j.find(key);
      if (it == j.end() || it->is_null()) return std::nullopt;
      return it->get<double>();
    };
    m.epoch = number("epoch").value_or(0);
    for (const auto& [name, value] : values(m)) *value = number(name);
    if (!m.loss && j.value("nonfinite", false)) m.loss = std::nan("");
    if (const auto it = j.find("mem_bytes"); it != j.end()) m.mem_bytes = count(*it);
    m.time = number("time").value_or(0);
    for (const auto& [key, value] : j.items()) {
      if (key == "nonfinite" || !value.is_number() || !is_metric_name(key)) continue;
      m.metric_name = key;
      m.metric = value.get<double>();
      break;
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return m;
}

MetricsFile read_metrics(const std::string& path) {
  MetricsFile file;
  int64_t number = 0;
  for (const std::string& line : split(read_text(path), '\n')) {
    ++number;
    if (line.empty()) continue;
    if (auto row = from_json_line(line)) {
      file.rows.push_back(*std::move(row));
    } else {
      file.damaged.push_back(number);
    }
  }
  return file;
}

MetricsWriter::MetricsWriter(const std::string& dir, std::optional<int64_t> last_step) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) fail(ErrorKind::runtime, dir, "cannot make the directory: ", error.message());
  jsonl_ = std::make_unique<Sink>(dir + "/metrics.jsonl");
  csv_ = std::make_unique<Sink>(dir + "/metrics.csv");
  if (csv_->empty()) csv_->append("step,epoch,split,loss,top1,lr,samples_per_s,data_s,step_s,mem_bytes,time\n");
  const double start = now();
  static std::atomic<unsigned> counter{0};  // two writers of one process and second get two files
  events_ = std::make_unique<Sink>(cat(dir, "/events.out.tfevents.", fixed(start, 0), ".", host_name(), ".",
                                       static_cast<int64_t>(::getpid()), ".", counter++));
  std::string version = event_head(start, 0);
  put_text(version, 3, "brain.Event:2");
  events_->append(event_record(version));
  if (!last_step) return;
  std::string restart = event_head(start, *last_step + 1);
  put_text(restart, 7, "\x08\x01");
  events_->append(event_record(restart));
}

MetricsWriter::~MetricsWriter() = default;

void MetricsWriter::write(Metrics m) {
  if (m.time == 0) m.time = now();
  jsonl_->append(to_json_line(m) + "\n");
  csv_->append(csv_line(m));
  std::string summary;
  for (const auto& [name, value] : values(m)) {
    if (*value) summary += summary_value(cat(name, "/", m.split), **value);
  }
  if (m.mem_bytes) summary += summary_value(cat("mem_bytes/", m.split), static_cast<double>(*m.mem_bytes));
  if (m.metric) summary += summary_value(cat(m.metric_name, "/", m.split), *m.metric);
  std::string event = event_head(m.time, m.step);
  put_text(event, 5, summary);
  events_->append(event_record(event));
}

uint32_t crc32c(std::string_view bytes) {
  static const auto kTable = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;  // the polynomial, bits reversed
      t[i] = c;
    }
    return t;
  }();
  uint32_t c = 0xffffffffu;
  for (const char b : bytes) c = kTable[(c ^ static_cast<uint8_t>(b)) & 0xff] ^ c >> 8;
  return ~c;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string event_record(std::string_view payload) {
  std::string length;
  put_little_endian(length, payload.size(), 8);
  std::string out = length;
  put_little_endian(out, masked_crc32c(length), 4);
  out += payload;
  put_little_endian(out, masked_crc32c(payload), 4);
  return out;
}

}  // namespace freight::io
