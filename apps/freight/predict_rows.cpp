// See predict_rows.h.
#include "predict_rows.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "freight/base/clock.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"
#include "freight/store/row_model.h"
#include "freight/store/table_rows.h"
#include "handover.h"

namespace freight::app {

namespace {

constexpr int64_t kMostRows = 1 << 16, kLeastRows = 64, kCells = 1 << 21;  // of a block
constexpr size_t kBlocksAhead = 2;                                         // between two threads

struct AnsweredBlock {
  RowBlock rows;
  Array answers, contributions;
};

// Joins a thread whatever happens, after `release` has freed it from waiting.
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
  void join() { thread_.join(); }

 private:
  std::function<void()> release_;
  std::thread thread_;
};

// The first number of each column that lies beyond those of training, of columns that were not told of before.
std::vector<std::string> beyond_in(const RowBlock& block, const std::vector<store::Column>& columns,
                                   std::set<size_t>& told) {
  std::vector<std::string> found;
  const auto n = static_cast<size_t>(block.count());
  for (size_t i = 0; i < n; ++i) {
    const double* const row = block.values.data<double>() + i * columns.size();
    for (size_t k = 0; k < columns.size(); ++k) {
      if (!store::beyond_range(columns[k], row[k]) || !told.insert(k).second) continue;
      for (const store::Beyond& b : store::beyond_training(columns, row)) {
        if (b.column == k) found.push_back(cat(block.file, ":", block.lines[i], ": ", b.text));
      }
    }
  }
  return found;
}

std::vector<std::string> names_of(const RowBlock& block) {
  std::vector<std::string> names;
  names.reserve(block.lines.size());
  for (const int64_t line : block.lines) names.push_back(cat(block.file, ":", line));
  return names;
}

}  // namespace

int64_t rows_per_block(const store::Bundle& bundle) {
  const auto width = static_cast<int64_t>(std::max<size_t>(bundle.columns.size(), 1));
  return std::clamp(kCells / width, kLeastRows, kMostRows);
}

std::vector<std::string> passed_columns(const store::Bundle& bundle) {
  std::vector<std::string> names;
  for (const store::SetAside& column : bundle.set_aside) {
    if (column.kind == "identifier" || (column.kind == "group" && bundle.rows->ranks())) names.push_back(column.name);
  }
  return names;
}

RowStream::RowStream(const store::Bundle& bundle, std::vector<std::string> files, int64_t most, bool stop_at_bad,
                     std::vector<std::string> passed)
    : columns_(bundle.columns),
      files_(std::move(files)),
      most_(most),
      stop_at_bad_(stop_at_bad),
      passed_(std::move(passed)) {}

void RowStream::open(const std::string& file) {
  data::CellsAsked asked;
  asked.kinds = [this, file](const data::TableHead& head) {
    // A lone row of words is a sample unless it is the names of the columns, behind which the samples were forgotten.
    const bool names = data::only_names(head) && std::all_of(columns_.begin(), columns_.end(), [&](const auto& c) {
                         return std::any_of(head.first_row.begin(), head.first_row.end(),
                                            [&](const auto& cell) { return data::trimmed(cell) == c.source_name(); });
                       });
    if (names) fail(ErrorKind::data, file, "holds a header and no rows");
    const std::vector<std::string> sources = store::sources_of(columns_);
    const bool in_order = !head.header && head.names.size() == sources.size();
    places_ = store::places_of(columns_, in_order ? sources : head.names, file);
    std::vector<data::CellKind> kinds = store::kinds_of(columns_, places_, head.names.size());
    passed_places_.clear();
    for (const std::string& name : passed_) {
      const auto at = std::find(head.names.begin(), head.names.end(), name);
      passed_places_.push_back(at == head.names.end() ? std::nullopt : std::optional(at - head.names.begin()));
      if (passed_places_.back()) kinds[*passed_places_.back()] = data::CellKind::words;
    }
    return kinds;
  };
  reader_ = std::make_unique<data::CellReader>(std::vector<std::string>{file}, std::move(asked));
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
    if (cells.rows() == 0) reader_ = nullptr;
  }
  const store::TableRows rows(columns_, cells, places_);
  block = {.file = files_[next_file_ - 1], .lines = {}, .values = {}, .faults = {}};
  std::vector<int64_t> sound;
  size_t next_fault = 0;
  for (int64_t i = 0; i < cells.rows() && !fault_; ++i) {
    if (next_fault == rows.faults().size() || rows.faults()[next_fault].row != i) {
      sound.push_back(i);
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
                  const std::function<bool(const RowsAnswered&)>& answered) {
  Handover<RowBlock> read(kBlocksAhead);
  Handover<AnsweredBlock> done(kBlocksAhead);
  std::exception_ptr not_written;
  Joined writing([&] { done.end(); },
                 [&] {
                   try {
                     for (AnsweredBlock b; done.take(b);) {
                       writer.write(names_of(b.rows), b.answers, explain ? &b.contributions : nullptr, b.rows.passed);
                     }
                   } catch (...) {
                     not_written = std::current_exception();
                     done.close();
                   }
                 });
  {
    Joined reading([&] { read.close(); },
                   [&] {
                     try {
                       for (RowBlock b; stream.next(b);) {
                         if (!read.put(std::move(b))) return;
                       }
                       read.end();
                     } catch (...) {
                       read.end(std::current_exception());
                     }
                   });
    std::set<size_t> beyond;  // columns of which that was told
    for (RowBlock block; read.take(block);) {
      RowsAnswered told{.rows = block.count(), .left_out = block.faults};
      told.beyond = beyond_in(block, predictor.bundle().columns, beyond);
      const auto start = std::chrono::steady_clock::now();
      AnsweredBlock b{.rows = std::move(block), .answers = {}, .contributions = {}};
      if (told.rows > 0) {
        b.answers = predictor.bundle().rows->run(b.rows.values);
        if (explain) b.contributions = predictor.bundle().rows->contributions(b.rows.values);
      }
      told.seconds = seconds_since(start);
      if (told.rows > 0 && !done.put(std::move(b))) break;
      if (!answered(told)) break;
    }
  }
  done.end();
  writing.join();
  if (not_written) std::rethrow_exception(not_written);
}

}  // namespace freight::app
