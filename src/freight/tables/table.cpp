// See table.h.
#include "freight/tables/table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "freight/base/error.h"
#include "freight/base/listing.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/data/cells.h"
#include "freight/data/columns.h"
#include "freight/data/dataset.h"
#include "freight/data/groups.h"
#include "freight/data/table_set.h"
#include "freight/io/digest.h"
#include "freight/io/file.h"
#include "freight/store/table_rows.h"
#include "freight/tables/kinds.h"
#include "freight/tables/number_columns.h"
#include "freight/tables/target.h"
#include "freight/tables/time_split.h"
#include "freight/tables/warnings.h"

namespace freight::tables {

namespace {

constexpr size_t kMostListed = 8;  // columns that a note lists
using Names = std::vector<std::string>;

// Throws for the first row with a fault; with --on-bad-sample skip it removes and reports all of them, in order.
void leave_out(data::Cells& cells, const RowSource& source, const std::vector<store::RowFault>& faults) {
  std::vector<bool> kept(static_cast<size_t>(cells.rows()), true);
  for (const store::RowFault& fault : faults) {
    const std::string place = cells.place(fault.row);
    if (source.bad.on_bad == data::OnBad::error) {
      const char* const fix = source.data.in_memory() ? "" : "; --on-bad-sample skip leaves such rows out";
      fail(ErrorKind::data, place, fault.reason, fix);
    }
    if (source.bad.report) source.bad.report({.path = place, .reason = fault.reason});
    kept[static_cast<size_t>(fault.row)] = false;
  }
  cells.keep(kept);
  if (cells.rows() == 0) fail(ErrorKind::data, source.data.where(), "has no rows");
  if (cells.rows() < 2 && !source.known) {
    fail(ErrorKind::data, source.data.where(), "holds ", cells.rows(),
         " rows, expected at least two, for training and validation");
  }
}

// Numbers the values of a column from 0; equal values have equal numbers.
std::vector<int64_t> numbered(const data::CellColumn& column, int64_t rows) {
  std::vector<int64_t> numbers;
  std::map<double, int64_t> seen;
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
    numbers.push_back(column.is_words()
                          ? static_cast<int64_t>(column.codes[i])
                          : seen.try_emplace(column.numbers[i], static_cast<int64_t>(seen.size())).first->second);
  }
  return numbers;
}

// Reads a table once. The roles of columns (target, weight, group, order) are given by name, and resolved when the
// names are known, before the rows are read.
class TableReader {
 public:
  TableReader(const RowSource& source, const data::TableSet& set, const data::TablePart& part)
      : source_(source), set_(set), types_(parse_types(source.types)) {
    cells_ = data::read_part(set, part,
                             {.kinds = [this](const data::TableHead& head) { return kinds(head); },
                              .times = [this](size_t column) { return is_only_feature(column); },
                              .names = names_of_columns(source.columns),
                              .header = header_of(source.header),
                              .needed = source.known ? store::sources_of(source.known->columns) : Names(),
                              .most_bytes = source.most_bytes,
                              .folder = source.folder});
    out_.share = cells_.share;
    out_.folder = source.folder;
    out_.target = target_column().name;
    read_quantities();
    leave_out(cells_, source_, unusable());
    leave_out_weightless();
    choose_columns();
    describe();
    leave_out(cells_, source_, store::TableRows(out_.shape.columns, cells_, places_).faults());
    divide();
    choose_levels();
    const std::vector<uint32_t> training = chosen_rows(false), others = chosen_rows(true);
    out_.train = rows_of(training);
    out_.held_out = rows_of(others);
    const std::shared_ptr<const store::TableRows> table = table_of_features();
    out_.train.values = {table, training};
    out_.held_out.values = {table, others};
    out_.fingerprint = fingerprint();
    if (source_.known) return;
    learn_ranges();
    if (!set_.test.empty()) read_own_test();
    if (!source.folder.empty()) {
      out_.notes.push_back(cat("rows are kept in files of ", source.folder, " instead of memory (--external-memory)"));
    }
    out_.warnings = warnings_of(out_);
    if (!unnamed_.empty()) out_.warnings.push_back(cat("ignored ", unnamed_, "; --types COL=TYPE overrides this"));
  }
  RowData take() { return std::move(out_); }

 private:
  const data::CellColumn& target_column() const { return cells_.columns[target_]; }
  bool is_ignored(size_t column) const { return ignored_.contains(column); }

  void need_feature(size_t at, const char* flag, const std::string& name, const char* fix = "") const {
    if (at == target_) fail(ErrorKind::usage, flag, "column ", name, " is the target", fix);
  }

  // A column that a flag names; empty if a model is measured on a table without that column.
  std::optional<size_t> asked_column(const data::TableHead& head, const std::string& asked, const char* flag) const {
    if (asked.empty()) return std::nullopt;
    const bool needed = source_.ranking && asked == source_.group_column;
    if (source_.known && !needed && std::find(head.names.begin(), head.names.end(), asked) == head.names.end()) {
      return std::nullopt;
    }
    const size_t at = column_at(head.names, asked, flag, source_.data.where());
    need_feature(at, flag, head.names[at]);
    return at;
  }

  // True for a column that has no other role, and whose type is not given: its times need no spelling.
  bool is_only_feature(size_t column) const {
    return column != target_ && column != order_ && column != group_ && !said_.contains(column);
  }

  std::vector<data::CellKind> kinds(const data::TableHead& head) {
    if (data::only_names(head)) fail(ErrorKind::data, source_.data.where(), "has a header and no rows");
    target_ = target_of(head, source_.target, source_.data.where());
    order_ = asked_column(head, source_.split_by, "--split-by");
    group_ = asked_column(head, source_.group_column, "--group-column");
    excludes({"--split-by", order_.has_value()}, {"--group-column", group_.has_value()}, "either divides the rows");
    weight_ = asked_column(head, source_.weight_column, "--weight-column");
    if (source_.known) return kinds_of_model(head);
    std::vector<data::CellKind> kinds(head.names.size(), data::CellKind::by_cells);
    for (const auto& [name, kind] : types_) {
      const size_t at = column_at(head.names, name, "--types", source_.data.where());
      need_feature(at, "--types", name, ": --task specifies its type");
      said_[at] = kind;
      kinds[at] = cells_of(kind);
    }
    for (const std::string& name : split(source_.drop, ',')) {
      if (name.empty()) continue;
      const size_t at = column_at(head.names, name, "--drop", source_.data.where());
      need_feature(at, "--drop", name, ": --target names another");
      ignored_[at] = "dropped";
      if (at != order_ && at != group_ && at != weight_) kinds[at] = data::CellKind::skipped;
    }
    if (weight_) ignored_[*weight_] = store::kWeightColumn, kinds[*weight_] = data::CellKind::numbers;
    if (group_) ignored_[*group_] = "group";
    return kinds;
  }

  std::vector<data::CellKind> kinds_of_model(const data::TableHead& head) {
    places_ = store::places_of(source_.known->columns, head.names, source_.data.where());
    std::vector<data::CellKind> kinds = store::kinds_of(source_.known->columns, places_, head.names.size());
    // Class names may be words or numbers, so their spelling decides.
    if (kinds[target_] == data::CellKind::skipped) {
      kinds[target_] = source_.known->classes.empty() ? data::CellKind::by_cells : data::CellKind::words;
    }
    for (const auto& column : {order_, group_}) {
      if (column && kinds[*column] == data::CellKind::skipped) kinds[*column] = data::CellKind::by_cells;
    }
    if (weight_) kinds[*weight_] = data::CellKind::numbers;
    return kinds;
  }

  // The target column and that of --split-by are quantities, in whatever style their numbers are written.
  void read_quantities() {
    for (const size_t at : {target_, order_.value_or(target_)}) {
      if (cells_.columns[at].kind == data::CellKind::skipped) continue;
      const NumberReading reading = read_numbers(cells_, at, {.quantity = true, .folder = source_.folder});
      const std::string note = both_notes(reading.note, missing_note(cells_.columns[at]));
      const std::string line = cat("column ", cells_.columns[at].name, ": ", note);
      const bool known = std::find(column_notes_.begin(), column_notes_.end(), line) != column_notes_.end();
      if (!note.empty() && !known) column_notes_.push_back(line);
    }
  }

  // Removes rows of weight 0 before anything is computed (classes, categories, means, splits), so that the model is
  // that of a table without them.
  void leave_out_weightless() {
    if (!weight_) return;
    const data::CellColumn& weights = cells_.columns[*weight_];
    std::vector<bool> kept;
    for (const double weight : weights.numbers) kept.push_back(weight > 0);
    const auto gone = std::count(kept.begin(), kept.end(), false);
    if (gone == 0) return;
    if (gone == cells_.rows()) {
      fail(ErrorKind::data, source_.data.where(), "column ", weights.name, ": all weights are 0");
    }
    cells_.keep(kept);
    if (cells_.rows() < 2 && !source_.known) {
      fail(ErrorKind::data, source_.data.where(), "holds ", cells_.rows(),
           " row with a weight above 0, expected at least two, for training and validation");
    }
    out_.notes.push_back(cat(gone, gone == 1 ? " row is" : " rows are", " ignored: weight 0 in column ", weights.name));
  }

  // The rows without a target, weight or group, which are skipped or refused.
  std::vector<store::RowFault> unusable() const {
    std::vector<store::RowFault> faults;
    for (int64_t i = 0; i < cells_.rows(); ++i) {
      if (target_column().missing(i)) {
        faults.push_back({i, cat("column ", out_.target, ", the target, is empty")});
      } else if (group_ && cells_.columns[*group_].missing(i)) {
        faults.push_back({i, cat("column ", cells_.columns[*group_].name, ", by which rows are grouped, is empty")});
      } else if (order_ && cells_.columns[*order_].missing(i)) {
        faults.push_back({i, cat("column ", cells_.columns[*order_].name, ", by which rows are divided, is empty")});
      } else if (weight_ && !(cells_.columns[*weight_].numbers[static_cast<size_t>(i)] >= 0)) {  // also true for NaN
        faults.push_back({i, cat("column ", cells_.columns[*weight_].name, ": got '",
                                 excerpt(cells_.columns[*weight_].text(i)), "', expected a weight of at least 0")});
      }
    }
    if (faults.size() == static_cast<size_t>(cells_.rows()) && !faults.empty() && all_without_target()) {
      fail(ErrorKind::data, source_.data.where(), "column ", out_.target, ", the target, is empty in all ",
           cells_.rows(), " rows; --target names another column");
    }
    return faults;
  }
  bool all_without_target() const {
    for (int64_t i = 0; i < cells_.rows(); ++i) {
      if (!target_column().missing(i)) return false;
    }
    return true;
  }

  void choose_columns() {
    if (source_.known) {
      out_.shape.columns = source_.known->columns;
      return;
    }
    std::vector<std::string> reasons;
    for (size_t i = 0; i < cells_.columns.size(); ++i) {
      if (i == target_) continue;
      data::CellColumn& column = cells_.columns[i];
      if (is_ignored(i)) {
        out_.shape.ignored_columns.push_back({column.name, ignored_.at(i)});
        continue;
      }
      const auto said = said_.find(i);
      const TypingOptions options{.said = said == said_.end() ? std::nullopt : std::optional(said->second),
                                  .alone = cells_.columns.size() - ignored_.size() == 2,
                                  .folder = source_.folder};
      const TypedColumn typed = type_column(cells_, i, source_.data.where(), options);
      for (store::Column& part : features_of(column, typed, cells_.head.names)) {
        places_.push_back(i);
        out_.shape.columns.push_back(std::move(part));
      }
      if (is_feature(typed.kind)) {
        ++kinds_[typed.kind];
        if (!typed.note.empty()) column_notes_.push_back(cat("column ", column.name, ": ", typed.note));
        continue;
      }
      out_.shape.ignored_columns.push_back({column.name, to_string(typed.kind)});
      if (options.said) continue;
      std::string reason = cat(column.name, " (", to_string(typed.kind), ": ", typed.note, ")");
      (i == 0 && cells_.head.index ? unnamed_ : reasons.emplace_back()) = std::move(reason);
    }
    if (places_.empty()) {
      if (!unnamed_.empty()) reasons.push_back(unnamed_);
      fail(ErrorKind::data, source_.data.where(), "has the column ", out_.target, " only: there are no features",
           reasons.empty() ? "" : cat("; ignored: ", join(reasons, ", "), "; --types COL=TYPE overrides this"));
    }
    if (reasons.empty()) return;
    column_notes_.push_back(
        cat("ignored columns: ", join_first(reasons, kMostListed), "; --types COL=TYPE overrides this"));
  }

  void describe() {
    choose_classes();
    const size_t classes = out_.shape.classes.size();
    if (source_.ranking && target_column().is_words()) {
      fail(ErrorKind::data, source_.data.where(), "column ", out_.target,
           " contains categories, a ranking needs relevance labels: whole numbers, higher is better");
    }
    if (classes == 0 && target_column().is_words()) {
      fail(ErrorKind::data, source_.data.where(), "column ", out_.target,
           " contains categories, the model is for regression: expected numbers, or a model for classification");
    }
    if (source_.ranking) need_relevances(cells_, target_);
    if (source_.ranking && weight_) need_weights_of_groups();
    if (source_.known) return;
    // Users who ask for regression may have such a target; otherwise the column is more likely to be the wrong one.
    if (classes > 0 || source_.task != "values") need_different(cells_, target_, out_.shape.classes);
    if (classes == 0) need_told_apart(cells_, target_);
    if (source_.task == "counts") need_counts(cells_, target_);
    if (source_.columns.empty() && set_.names.empty()) {
      if (const std::string note = header_note(cells_.head, source_.header); !note.empty()) out_.notes.push_back(note);
    }
    if (const std::string note = blank_note(cells_); !note.empty()) out_.notes.push_back(note);
    const size_t features = cells_.columns.size() - 1 - out_.shape.ignored_columns.size();
    out_.notes.push_back(cat("target ", out_.target, ": ",
                             classes > 0       ? cat(classes, " classes")
                             : source_.ranking ? std::string("ranking")
                                               : std::string("regression"),
                             " on ", features, features == 1 ? " feature" : " features",
                             source_.target.empty() ? " (--target names another)" : ""));
    std::vector<std::string> counts;
    for (const auto& [kind, count] : kinds_) counts.push_back(cat(count, " ", to_string(kind)));
    out_.notes.push_back(cat("columns by type: ", join(counts, ", "), " (freight data info lists them)"));
    for (const std::string& note : column_notes_) out_.notes.push_back(note);
  }

  // XGBoost weights whole groups of a ranking.
  void need_weights_of_groups() const {
    const std::vector<int64_t> groups = numbered(cells_.columns[*group_], cells_.rows());
    const data::CellColumn& weights = cells_.columns[*weight_];
    std::map<int64_t, double> weight_of;
    for (size_t i = 0; i < groups.size(); ++i) {
      const double weight = weights.numbers[i], first = weight_of.try_emplace(groups[i], weight).first->second;
      if (weight == first) continue;
      fail(ErrorKind::data, cells_.place(static_cast<int64_t>(i)), "column ", weights.name,
           ": expected one weight in all rows of each, got ", weight, " after ", first, " for the same ",
           cells_.columns[*group_].name, ": a ranking weighs whole queries");
    }
  }

  void choose_classes() {
    if (source_.known) {
      out_.shape.classes = source_.known->classes;
      return;
    }
    const std::string& task = source_.task;
    if (task == "classes" && source_.values) {
      refuse_value("--task", "classes", "the model or its --objective is for regression");
    }
    if (task == "values" || task == "counts" || source_.values || source_.ranking) return;
    out_.shape.classes = classes_of(target_column(), task == "classes" ? Classes::asked : Classes::by_cells);
  }

  std::vector<bool> held_out(double share) const {
    if (source_.whole || share == 0) return std::vector<bool>(static_cast<size_t>(cells_.rows()), false);
    if (group_) return data::hold_out_groups(numbered(cells_.columns[*group_], cells_.rows()), share, source_.seed);
    if (order_) return hold_out_last(times(), share);
    return data::hold_out(labels_, std::max<size_t>(out_.shape.classes.size(), 1), share, source_.seed);
  }

  // The numbers of the column of --split-by.
  std::vector<double> times() const {
    const data::CellColumn& column = cells_.columns[*order_];
    std::vector<double> times;
    if (!column.is_words()) {
      for (const double v : column.numbers) times.push_back(v);
      return times;
    }
    const TypedColumn typed = type_of(column, source_.data.where(), {});
    if (typed.kind != ColumnKind::datetime) {
      fail(ErrorKind::data, source_.data.where(), "column ", column.name, ": --split-by needs times or numbers, got ",
           to_string(typed.kind), " '", excerpt(column.text(0)), "'");
    }
    const store::Column seconds{.name = column.name, .form = store::CellForm::seconds, .order = typed.order};
    std::vector<double> by_code;
    for (uint32_t code = 0; code < column.words.size(); ++code) {
      by_code.push_back(store::value_in(seconds, column.words[code]).value_or(0));
    }
    for (const uint32_t code : column.codes) times.push_back(by_code[code]);
    return times;
  }

  void divide() {
    labels_ = out_.shape.classes.empty() ? std::vector<int64_t>(static_cast<size_t>(cells_.rows()))
                                         : labels_of(cells_, target_, out_.shape.classes);
    const double share = source_.val_split < 0 ? data::kDefaultSplit : source_.val_split;
    held_out_ = held_out(share);
    const auto count = std::count(held_out_.begin(), held_out_.end(), true);
    if (source_.whole && !source_.known && set_.test.empty()) {
      fail(ErrorKind::usage, "--val-split", "there is neither a validation set nor a test set to evaluate a model on");
    }
    if (!source_.known && !source_.whole && share == 0) {
      out_.notes.push_back("all rows are fitted (--val-split 0)");
      return;
    }
    if (!source_.known && !source_.whole && (count == 0 || count == static_cast<int64_t>(held_out_.size()))) {
      const bool rare = count == 0 && !out_.shape.classes.empty() && !group_ && !order_;
      fail(ErrorKind::usage,
           group_   ? "--group-column"
           : order_ ? "--split-by"
                    : "--val-split",
           "of ", held_out_.size(), " rows ", count, " are held out: expected some in either split",
           rare ? cat("; column ", out_.target, " has ", out_.shape.classes.size(), " classes, of too few rows each")
                : std::string());
    }
    if (source_.whole) {
      out_.notes.push_back("no validation set: the test set is another file, and folds guide the training");
      return;
    }
    out_.notes.push_back(cat(count, " of ", held_out_.size(), " rows are held out",
                             set_.test.empty() ? "" : ", which guide the training",
                             group_   ? cat(", by groups of ", cells_.columns[*group_].name)
                             : order_ ? cat(", the last by ", cells_.columns[*order_].name)
                                      : std::string(),
                             " (--val-split)"));
  }

  // Takes the categories of the training rows only: held-out rows are treated like unseen ones.
  void choose_levels() {
    if (source_.known) return;
    std::vector<bool> training = held_out_;
    training.flip();
    for (size_t k = 0; k < places_.size(); ++k) {
      if (out_.shape.columns[k].words) out_.shape.columns[k].levels = words_in(cells_.columns[places_[k]], training);
    }
  }

  void learn_ranges() {
    for (int64_t k = 0; k < out_.train.values.width(); ++k) {
      store::Column& column = out_.shape.columns[static_cast<size_t>(k)];
      column.complete = true;
      for (const double v : out_.train.values.column(k)) {
        column.complete = column.complete && !std::isnan(v);
        if (std::isnan(v) || column.words) continue;
        if (!column.range) column.range = {v, v};
        column.range = {std::min(column.range->least, v), std::max(column.range->most, v)};
      }
    }
  }

  void read_own_test() {
    RowSource other = source_;
    if (!set_.test.files.empty()) other.data = set_.test.files[0];
    other.test = other.drop = other.types = other.split_by = "";
    if (weight_) other.weight_column = cells_.head.names[*weight_];
    if (!other.ranking) other.group_column = "";
    other.target = out_.target;
    other.known = &out_.shape;
    other.whole = true;
    RowData test = TableReader(other, set_, set_.test).take();
    out_.own_test = std::move(test.train);
    if (weight_ && !out_.own_test.weights) {
      out_.notes.push_back(
          cat("rows of ", other.data.where(), " are not weighted: it has no column ", other.weight_column));
    }
    out_.notes.push_back(cat("the ", out_.own_test.count(), " rows of ", other.data.where(), " are the test set",
                             source_.test.empty() ? "" : " (--test)"));
  }

  // The rows of a split; those of a ranking by their groups.
  std::vector<uint32_t> chosen_rows(bool test) const {
    std::vector<uint32_t> chosen;
    chosen.reserve(static_cast<size_t>(std::count(held_out_.begin(), held_out_.end(), test)));
    for (size_t i = 0; i < held_out_.size(); ++i) {
      if (held_out_[i] == test) chosen.push_back(static_cast<uint32_t>(i));
    }
    if (source_.ranking) {
      const std::vector<int64_t> groups = numbered(cells_.columns[*group_], cells_.rows());
      std::stable_sort(chosen.begin(), chosen.end(), [&](uint32_t a, uint32_t b) { return groups[a] < groups[b]; });
    }
    return chosen;
  }

  // The cells of the features, which take no other memory than their columns'.
  std::shared_ptr<const store::TableRows> table_of_features() {
    for (size_t i = 0; i < cells_.columns.size(); ++i) {
      if (std::find(places_.begin(), places_.end(), i) == places_.end()) cells_.columns[i] = {};
    }
    auto cells = std::make_shared<data::Cells>(std::move(cells_));
    cells_ = {.files = cells->files, .head = cells->head, .columns = {}, .places = {}};
    return std::make_shared<store::TableRows>(out_.shape.columns, std::move(cells), places_);
  }

  // Labels, weights and groups.
  store::Rows rows_of(const std::vector<uint32_t>& chosen) const {
    std::vector<int64_t> groups;
    if (group_) groups = numbered(cells_.columns[*group_], cells_.rows());
    const auto n = static_cast<int64_t>(chosen.size());
    const bool classes = !out_.shape.classes.empty();
    store::Rows rows{{}, Array(classes ? DType::i64 : DType::f32, {n})};
    if (weight_) rows.weights = Array(DType::f32, {n});
    for (size_t i = 0; i < chosen.size(); ++i) {
      const size_t row = chosen[i];
      if (weight_) {
        const auto weight = static_cast<float>(cells_.columns[*weight_].numbers[row]);
        if (!(weight > 0) || !std::isfinite(weight)) {
          fail(ErrorKind::data, cells_.place(chosen[i]), "column ", cells_.columns[*weight_].name,
               ": expected a weight that f32 holds, got ", cells_.columns[*weight_].numbers[row]);
        }
        rows.weights->data<float>()[i] = weight;
      }
      if (classes) {
        rows.labels.data<int64_t>()[i] = labels_[row];
        continue;
      }
      const auto value = static_cast<float>(target_column().numbers[row]);
      if (!std::isfinite(value)) {
        fail(ErrorKind::data, cells_.place(chosen[i]), "column ", out_.target,
             ": expected a number that f32 holds, got ", excerpt(target_column().text(static_cast<int64_t>(row))));
      }
      rows.labels.data<float>()[i] = value;
    }
    if (group_) {
      rows.groups = Array(DType::i64, {n});
      for (size_t i = 0; i < chosen.size(); ++i) rows.groups->data<int64_t>()[i] = groups[chosen[i]];
    }
    rows.ranked = source_.ranking;
    return rows;
  }

  // A hash of what a model is fitted to: a copy of the file has the same, in any order of its columns.
  uint64_t fingerprint() const {
    std::string text = cat(out_.target, "\n", join(out_.shape.classes, "\t"));
    for (const store::Column& c : out_.shape.columns) text += cat("\n", c.name, "\t", join(c.levels, "\t"));
    const auto bytes = [](const void* data, size_t size) {
      return io::ByteView(static_cast<const uint8_t*>(data), size);
    };
    const store::RowValues& values = out_.train.values;
    constexpr int64_t kBlock = 1 << 12;  // rows
    std::vector<double> room;
    io::Xxh3 hash_of_values;
    for (int64_t begin = 0; begin < values.count(); begin += kBlock) {
      const int64_t end = std::min(values.count(), begin + kBlock);
      hash_of_values.add(
          bytes(values.read(begin, end, room), static_cast<size_t>((end - begin) * values.width()) * sizeof(double)));
    }
    text += cat("\n", hash_of_values.hex(), io::xxh3_128(bytes(out_.train.labels.raw(), out_.train.labels.bytes())));
    const std::string hash = io::xxh3_128({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    return parse_hex(std::string_view(hash).substr(0, 16)).value();
  }

  const RowSource& source_;
  const data::TableSet& set_;
  std::map<std::string, ColumnKind> types_;
  std::map<size_t, ColumnKind> said_;      // by column
  std::map<size_t, std::string> ignored_;  // columns that are not features because a flag says so, and the reason
  data::Cells cells_;
  size_t target_ = 0;
  std::optional<size_t> weight_, group_, order_;
  std::map<ColumnKind, int64_t> kinds_;  // number of columns, by kind
  std::vector<std::string> column_notes_;
  std::string unnamed_;  // the first column and the reason, if it is ignored because the header does not name it
  std::vector<int64_t> labels_;
  std::vector<bool> held_out_;  // by row
  std::vector<size_t> places_;  // of the columns that are read
  RowData out_;
};

void need_file(const std::string& path) {
  std::error_code ignored;
  if (!path.empty() && !std::filesystem::is_directory(path, ignored)) return;
  fail(ErrorKind::data, path.empty() ? std::string("data") : path,
       "is not a table: expected a .csv, .tsv, .jsonl (.gz too) or .npz file with a row per sample");
}

}  // namespace

std::optional<bool> header_of(const std::string& said) {
  return said == "yes" || said == "no" ? std::optional(said == "yes") : std::nullopt;
}

std::string header_note(const data::TableHead& head, const std::string& header) {
  if (header_of(header)) return "";
  if (!head.header) {
    return "the first row is data, not a header: it contains a number, or its values do not look like names; --columns "
           "names "
           "the columns, --header yes reads it as the header";
  }
  if (!head.numbers_in_header && !head.header_unsure) return "";
  return cat("the first row is the header, ",
             head.numbers_in_header ? "some of whose names are numbers: " : "by the look of its cells alone: ",
             excerpt(join(head.names, ", ")), "; --header no reads it as data");
}

std::string blank_note(const data::Cells& cells) {
  if (cells.blank_rows == 0) return "";
  return cat(with_commas(cells.blank_rows), cells.blank_rows == 1 ? " row" : " rows", " without any value skipped");
}

std::vector<std::string> names_of_columns(const std::string& said) {
  std::vector<std::string> names;
  const bool file = io::file_exists(said);
  for (const std::string& part : split(file ? io::read_text(said) : said, file ? '\n' : ',')) {
    const std::string name(data::trimmed(part));
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

double bytes_of_reading(const RowSource& source, double enough) {
  // A value takes at least a character and a separator; compressed text is seldom smaller than a twentieth.
  constexpr double kLeastOfCell = 2, kMostPacked = 20;
  constexpr uint64_t kFirstBytes = uint64_t{1} << 20;
  const data::TableSet set = source.data.table();
  if (set.train.cells) return bytes_of_reading(set.train.cell_count);
  double most = 0;
  for (const std::string& file : set.train.files) {
    std::error_code ignored;
    const auto size = static_cast<double>(
        std::filesystem::is_regular_file(file, ignored) ? std::filesystem::file_size(file, ignored) : 0);
    most += bytes_of_reading(size / kLeastOfCell * (lower(file).ends_with(".gz") ? kMostPacked : 1));
  }
  if (most <= enough) return most;
  const auto skipped = [](const data::TableHead& head) {
    return std::vector<data::CellKind>(head.names.size(), data::CellKind::skipped);
  };
  const data::Cells first = data::read_part(set, set.train,
                                            {.kinds = skipped,
                                             .names = names_of_columns(source.columns),
                                             .header = header_of(source.header),
                                             .most_bytes = kFirstBytes});
  return bytes_of_reading(static_cast<double>(first.rows()) * static_cast<double>(first.columns.size()) / first.share);
}

RowData read_table(const RowSource& source) {
  data::TableSet set = source.data.table();
  RowSource asked = source;
  if (asked.target.empty()) asked.target = set.target;
  if (asked.drop.empty() && !asked.known) asked.drop = join(set.drop, ",");
  if (!asked.test.empty()) set.test = data::TablePart{.files = {asked.test}};
  for (const data::TablePart* part : {&set.train, &set.test}) {
    for (const std::string& file : part->files) need_file(file);
  }
  return TableReader(asked, set, source.test_part ? set.test : set.train).take();
}

}  // namespace freight::tables
