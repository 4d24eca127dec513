// See predict_rows.h.
#include "predict_rows.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>
#include <limits>
#include <set>
#include <thread>

#include "bounded_queue.h"
#include "freight/base/clock.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/data/columns.h"
#include "freight/store/row_model.h"
#include "freight/store/table_rows.h"

namespace freight::app {

namespace {

// A block and its results fit in the caches of a core.
constexpr int64_t kMostRows = 1 << 13, kLeastRows = 64, kCells = 1 << 18;
constexpr size_t kBlocksAhead = 2;  // in addition to those being predicted: read, or waiting to be written

// A block's predictions, and its text if that does not depend on earlier blocks.
struct PredictedBlock {
  RowsPredicted predicted;
  std::vector<store::Beyond> beyond;  // the first of each column
  std::vector<std::string> names;
  Array predictions, contributions;
  std::optional<std::string> text;
};

// Joins a thread in all cases, after `release` has ended its waits.
class Joined {
 public:
  Joined(std::function<void()> release, std::function<void()> body)
      : release_(std::move(release)), thread_(std::move(body)) {}
  ~Joined() {
    if (!thread_.joinable()) return;
    release_();
    thread_.join();
  }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;

 private:
  std::function<void()> release_;
  std::thread thread_;
};

// The first number of each column outside the range of training.
std::vector<store::Beyond> beyond_in(const RowBlock& block, const std::vector<store::Column>& columns) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<double> least(columns.size(), -kNone), most(columns.size(), kNone);
  for (size_t k = 0; k < columns.size(); ++k) {
    if (!store::beyond_range(columns[k], kNone)) continue;  // the column has no range
    least[k] = columns[k].range->least;
    most[k] = columns[k].range->most;
  }
  std::vector<store::Beyond> found;
  const auto n = static_cast<size_t>(block.count());
  for (size_t i = 0; i < n; ++i) {
    const double* const row = block.values.data<double>() + i * columns.size();
    bool any = false;
    for (size_t k = 0; k < columns.size(); ++k) {  // without branches
      any |= row[k] < least[k];
      any |= row[k] > most[k];
    }
    if (!any) continue;
    for (store::Beyond& b : store::beyond_training(columns, row)) {
      b.text = cat(block.file, ":", block.lines[i], ": ", b.text);
      least[b.column] = -kNone;
      most[b.column] = kNone;
      const bool known = std::any_of(found.begin(), found.end(), [&](const auto& f) { return f.column == b.column; });
      if (!known) found.push_back(std::move(b));
    }
  }
  return found;
}

std::vector<std::string> names_of(const RowBlock& block) {
  std::vector<std::string> names;
  names.reserve(block.lines.size());
  std::string name = block.file + ":";
  const size_t length = name.size();
  for (const int64_t line : block.lines) {
    char digits[24];
    name.resize(length);
    name.append(digits, std::to_chars(digits, digits + sizeof digits, line).ptr);
    names.push_back(name);
  }
  return names;
}

PredictedBlock predictions_for(const RowBlock& block, const store::Bundle& bundle, const PredictionWriter& writer,
                               bool explain) {
  PredictedBlock b;
  b.predicted = {.rows = block.count(), .left_out = block.faults, .file = block.file};
  b.predicted.gaps.add(bundle.columns, block.values);
  b.beyond = beyond_in(block, bundle.columns);
  if (b.predicted.rows == 0) return b;
  const auto start = std::chrono::steady_clock::now();
  b.predictions = bundle.rows->run(block.values);
  if (explain) b.contributions = bundle.rows->contributions(block.values);
  b.predicted.seconds = seconds_since(start);
  b.names = names_of(block);
  if (writer.texts_stand_alone()) {
    b.text = writer.text_of(b.names, b.predictions, explain ? &b.contributions : nullptr, block.passed);
  }
  return b;
}

}  // namespace

int64_t rows_per_block(const store::Bundle& bundle) {
  const auto width = static_cast<int64_t>(std::max<size_t>(bundle.columns.size(), 1));
  return std::clamp(kCells / width, kLeastRows, kMostRows);
}

RowStream::RowStream(const store::Bundle& bundle, std::vector<std::string> files, int64_t most, bool stop_at_bad,
                     PassedColumns passed)
    : columns_(bundle.columns),
      files_(std::move(files)),
      most_(most),
      stop_at_bad_(stop_at_bad),
      passed_(std::move(passed)) {}

void RowStream::open(const std::string& file) {
  data::CellsAsked asked{.needed = store::sources_of(columns_)};
  asked.kinds = [this, file](const data::TableHead& head) {
    // A single row of words is a sample, unless it consists of the column names and the samples after it are missing.
    const bool names = data::only_names(head) && std::all_of(columns_.begin(), columns_.end(), [&](const auto& c) {
                         return std::any_of(head.first_row.begin(), head.first_row.end(),
                                            [&](const auto& cell) { return data::trimmed(cell) == c.source_name(); });
                       });
    if (names) fail(ErrorKind::data, file, "has a header and no rows");
    const std::vector<std::string> sources = store::sources_of(columns_);
    const bool in_order = !head.header && head.names.size() == sources.size();
    places_ = store::places_of(columns_, in_order ? sources : head.names, file);
    std::vector<data::CellKind> kinds = store::kinds_of(columns_, places_, head.names.size());
    passed_places_.clear();
    for (const std::string& name : passed_.names) {
      const auto at = std::find(head.names.begin(), head.names.end(), name);
      if (at == head.names.end() && passed_.needed) refuse_column("--columns", name, head.names, file);
      passed_places_.push_back(at == head.names.end() ? std::nullopt : std::optional(at - head.names.begin()));
      if (passed_places_.back()) kinds[*passed_places_.back()] = data::CellKind::words;
    }
    return kinds;
  };
  const std::string path = file == "-" ? "/dev/stdin" : file;
  reader_ = std::make_unique<data::CellReader>(std::vector<std::string>{path}, std::move(asked));
}

bool RowStream::next(RowBlock& block) {
  if (fault_) throw Error(*fault_);
  data::Cells cells;
  while (cells.rows() == 0) {
    if (!reader_) {
      if (next_file_ == files_.size()) return false;
      open(files_[next_file_++]);
    }
    cells = reader_->next(most_);
    blank_rows_ += cells.blank_rows;
    if (cells.rows() == 0) reader_ = nullptr;
  }
  const store::TableRows rows(columns_, cells, places_);
  block = {.file = files_[next_file_ - 1], .lines = {}, .values = {}, .faults = {}};
  std::vector<uint32_t> sound;
  size_t next_fault = 0;
  for (int64_t i = 0; i < cells.rows() && !fault_; ++i) {
    if (next_fault == rows.faults().size() || rows.faults()[next_fault].row != i) {
      sound.push_back(static_cast<uint32_t>(i));
      block.lines.push_back(cells.places.line(i));
      for (const std::optional<size_t>& at : passed_places_) {
        block.passed.push_back(at ? cells.columns[*at].text(i) : std::string());
      }
      continue;
    }
    Error fault(ErrorKind::data, cells.place(i), rows.faults()[next_fault++].reason);
    if (stop_at_bad_) {
      fault_ = std::move(fault);
    } else {
      block.faults.push_back(std::move(fault));
    }
  }
  if (fault_ && sound.empty()) throw Error(*fault_);
  block.values = rows.values(sound);
  return true;
}

void predict_rows(const deploy::Predictor& predictor, RowStream& stream, PredictionWriter& writer, bool explain,
                  const std::function<bool(const RowsPredicted&)>& predicted) {
  using Task = std::packaged_task<PredictedBlock()>;
  const store::Bundle& bundle = predictor.bundle();
  // With --explain blocks are predicted one after the other, since contributions use all threads. Otherwise each thread
  // predicts a block by itself, so that none waits for others at the end of each.
  const size_t threads = explain ? 1 : static_cast<size_t>(thread_count());
  BoundedQueue<std::future<PredictedBlock>> in_order(threads + kBlocksAhead);
  BoundedQueue<Task> open(threads + kBlocksAhead + 1);
  const auto read = [&] {
    try {
      for (RowBlock block; stream.next(block);) {
        const auto rows = std::make_shared<const RowBlock>(std::move(block));
        Task task([rows, &bundle, &writer, explain] { return predictions_for(*rows, bundle, writer, explain); });
        if (!in_order.put(task.get_future()) || !open.put(std::move(task))) break;
      }
      in_order.end();
    } catch (...) {
      in_order.end(std::current_exception());
    }
    open.end();
  };
  const auto predict = [&] {
    std::optional<ThreadLimit> alone;
    if (threads > 1) alone.emplace(1);
    for (Task task; open.take(task);) task();
  };
  const auto release = [&] {
    in_order.close();
    open.close();
  };
  Joined reading(release, read);
  std::vector<std::unique_ptr<Joined>> predicting;
  for (size_t i = 0; i < threads; ++i) predicting.push_back(std::make_unique<Joined>(release, predict));
  std::set<size_t> reported_beyond;  // columns
  for (std::future<PredictedBlock> next; in_order.take(next);) {
    PredictedBlock b = next.get();
    for (store::Beyond& beyond : b.beyond) {
      if (reported_beyond.insert(beyond.column).second) b.predicted.beyond.push_back(std::move(beyond.text));
    }
    if (b.text) {
      writer.write_text(*b.text, b.predictions);
    } else if (b.predicted.rows > 0) {
      writer.write(b.names, b.predictions, explain ? &b.contributions : nullptr);
    }
    if (!predicted(b.predicted)) break;
  }
}

}  // namespace freight::app
