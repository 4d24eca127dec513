// See predict_batches.h. Predictions are sent as bytes: numbers as in memory, and texts after their lengths.
#include "predict_batches.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <type_traits>

#include "freight/base/clock.h"
#include "freight/base/strings.h"
#include "freight/io/digest.h"

namespace freight::app {

namespace {

class ByteWriter {
 public:
  template <class T>
  void number(T v) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes(&v, sizeof v);
  }
  void text(const std::string& s) {
    number(s.size());
    bytes(s.data(), s.size());
  }
  void bytes(const void* data, size_t size) {
    if (size > 0) all_.append(static_cast<const char*>(data), size);
  }
  const std::string& all() const { return all_; }

 private:
  std::string all_;
};

class ByteReader {
 public:
  ByteReader(const char* data, size_t size) : data_(data), left_(size) {}
  template <class T>
  T number() {
    T v{};
    bytes(&v, sizeof v);
    return v;
  }
  std::string text() {
    std::string s(number<size_t>(), '\0');
    bytes(s.data(), s.size());
    return s;
  }
  void bytes(void* to, size_t size) {
    FREIGHT_CHECK(size <= left_, "a rank's output is truncated");
    if (size > 0) std::memcpy(to, data_, size);
    data_ += size;
    left_ -= size;
  }

 private:
  const char* data_;
  size_t left_;
};

void put(ByteWriter& to, const BatchPrediction& a) {
  to.number(a.notes.size());
  for (const BatchPrediction::Note& n : a.notes) {
    to.number(n.of);
    to.text(n.text);
  }
  to.number(a.fault.has_value());
  if (a.fault) {
    to.number(a.fault->kind());
    for (const std::string* s : {&a.fault->op(), &a.fault->message(), &a.fault->where()}) to.text(*s);
  }
  to.number(a.predicted.size());
  to.bytes(a.predicted.data(), a.predicted.size() * sizeof(int64_t));
  if (!a.predicted.empty()) {
    to.number(a.rows.shape()[1]);
    to.bytes(a.rows.raw(), a.rows.bytes());
  }
  to.number(a.seconds);
  to.number(a.planning_s);
}

BatchPrediction take_prediction(ByteReader& from) {
  BatchPrediction a;
  const auto notes = from.number<size_t>();
  for (size_t i = 0; i < notes; ++i) {
    const auto of = from.number<BatchPrediction::Note::Of>();
    a.notes.push_back({of, from.text()});
  }
  if (from.number<bool>()) {
    const auto kind = from.number<ErrorKind>();
    std::string op = from.text(), message = from.text(), where = from.text();
    a.fault.emplace(kind, std::move(op), std::move(message), std::move(where));
  }
  a.predicted.resize(from.number<size_t>());
  from.bytes(a.predicted.data(), a.predicted.size() * sizeof(int64_t));
  if (!a.predicted.empty()) {
    a.rows = Array(DType::f32, {static_cast<int64_t>(a.predicted.size()), from.number<int64_t>()});
    from.bytes(a.rows.raw(), a.rows.bytes());
  }
  a.seconds = from.number<double>();
  a.planning_s = from.number<double>();
  return a;
}

// The bytes of all ranks, by rank.
std::vector<std::string> gather_bytes(comm::Comm& comm, const std::string& mine) {
  const auto world = static_cast<size_t>(comm.world());
  const auto size = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(world);
  comm.all_gather(&size, sizes.data(), 1, DType::i64);
  const int64_t most = *std::max_element(sizes.begin(), sizes.end());
  std::string padded = mine, all(world * static_cast<size_t>(most), '\0');
  padded.resize(static_cast<size_t>(most));
  comm.all_gather(padded.data(), all.data(), most, DType::u8);
  std::vector<std::string> out;
  for (size_t r = 0; r < world; ++r) {
    out.push_back(all.substr(r * static_cast<size_t>(most), static_cast<size_t>(sizes[r])));
  }
  return out;
}

// A hash of the names of a round's inputs.
std::string names_in_short(const Round& round) {
  std::string all;
  for (const std::vector<Input>& batch : round.batches) {
    all += '\1';
    for (const Input& input : batch) all += input.name + '\0';
  }
  return io::xxh3_128({reinterpret_cast<const uint8_t*>(all.data()), all.size()});
}

}  // namespace

BatchPrediction predict(deploy::Predictor& predictor, const std::vector<Input>& batch, bool stop_at_bad) {
  using Of = BatchPrediction::Note::Of;
  BatchPrediction a;
  std::vector<Array> samples;
  bool warned = false;  // about a range
  for (size_t i = 0; i < batch.size(); ++i) {
    const Input& input = batch[i];
    if (input.fault && stop_at_bad) {
      a.fault = input.fault;
      break;
    }
    if (input.fault) {
      a.notes.push_back({Of::left_out, input.fault->what()});
      continue;
    }
    const std::string odd = warned ? "" : predictor.range_warning(input.sample);
    if (!odd.empty()) a.notes.push_back({Of::range, cat(input.name, ": ", odd)});
    warned = warned || !odd.empty();
    a.predicted.push_back(static_cast<int64_t>(i));
    samples.push_back(input.sample);
  }
  if (samples.empty()) return a;
  auto start = std::chrono::steady_clock::now();
  predictor.warm(samples);
  a.planning_s = seconds_since(start);
  start = std::chrono::steady_clock::now();
  a.rows = predictor.run(samples);
  a.seconds = seconds_since(start);
  return a;
}

Round next_round(InputStream& inputs, const InputShard& shard) {
  Round round;
  try {
    for (int r = 0; r < shard.world; ++r) {
      round.batches.push_back(inputs.next(shard.batch));
      if (round.batches.back().empty()) break;
    }
  } catch (const Error& e) {
    round.fault = e;
  }
  round.batches.resize(static_cast<size_t>(shard.world));
  return round;
}

std::optional<std::vector<BatchPrediction>> exchange(comm::Comm& comm, const Round& round, const BatchPrediction& mine,
                                                     int& signal) {
  ByteWriter bytes;
  bytes.number(signal);
  bytes.text(names_in_short(round));
  put(bytes, mine);
  std::vector<BatchPrediction> all;
  std::string first;
  const std::vector<std::string> gathered = gather_bytes(comm, bytes.all());
  std::vector<ByteReader> readers;
  for (const std::string& one : gathered) readers.emplace_back(one.data(), one.size());
  for (ByteReader& r : readers) signal = std::max(signal, r.number<int>());
  if (signal != 0) return std::nullopt;  // there may be fewer names because reading was stopped
  for (size_t r = 0; r < readers.size(); ++r) {
    const std::string names = readers[r].text();
    if (r == 0) first = names;
    if (names != first) {
      fail(ErrorKind::data, "predict", "rank ", r,
           " finds other inputs than rank 0: a folder or a list differs there, ", "or has changed meanwhile");
    }
    all.push_back(take_prediction(readers[r]));
  }
  return all;
}

}  // namespace freight::app
