// See predict_output.h.
#include "predict_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/io/csv_field.h"
#include "freight/io/json_library.h"
#include "freight/io/npy_internal.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWidest = 80;           // of the first column
constexpr size_t kUsualPrediction = 32;  // characters after the name

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

// Like fixed(v, 6) in a tenth of the time: tables have millions of rows.
void add_fixed(std::string& out, float v) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::fixed, 6);
  out.append(buffer, end.ptr);
}

[[noreturn]] void cannot_write(const std::string& what) {
  fail(ErrorKind::runtime, what, "cannot write: ", std::strerror(errno));
}

// An unnamed file in the folder that TMPDIR names; null if it cannot be made.
std::FILE* temporary_file() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) return nullptr;
  std::string name = (folder / "freight-XXXXXX").string();
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return nullptr;
  ::unlink(name.c_str());
  return ::fdopen(fd, "w+");
}

}  // namespace

PredictionWriter::PredictionWriter(const deploy::Predictor& predictor, const OutputOptions& options)
    : bundle_(predictor.bundle()),
      options_(options),
      probabilities_(predictor.probabilities()),
      outputs_(predictor.outputs()) {
  if (!options.file.empty()) file_ = std::make_unique<io::AtomicFile>(options.file);
  if (!options.npy.empty() && !(rows_ = temporary_file())) cannot_write(cat(options_.npy, ", by a temporary file"));
  if (options.explain) groups_ = probabilities_ && outputs_ == 2 ? 1 : outputs_;
  if (options.form != Form::csv) return;
  std::string header;
  if (options_.columns.empty()) {
    header =
        cat(bundle_.preprocessing.text() ? "text" : "path", probabilities_ ? ",class,probability" : ",output,value");
  }
  for (const CsvColumn& c : options_.columns) header += cat(header.empty() ? "" : ",", io::csv_field(c.name));
  inputs_ = input_columns(options_.columns).size();
  if (options.explain) {
    for (const store::Column& c : bundle_.columns) header += cat(",", io::csv_field(cat("shap:", c.name)));
    header += ",shap:base";
  }
  put(header + "\n");
}

PredictionWriter::~PredictionWriter() {
  if (rows_) std::fclose(rows_);
}

void PredictionWriter::put(const std::string& text) {
  if (file_) return file_->write(std::string_view(text));
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    cannot_write("standard output");
  }
}

void PredictionWriter::write(const std::vector<std::string>& names, const Array& rows, const Array* contributions,
                             const std::vector<std::string>& passed) {
  for (const std::string& name : names) width_ = std::max(width_, std::min(name.size(), kWidest));
  write_text(text_of(names, rows, contributions, passed), rows);
}

std::string PredictionWriter::text_of(const std::vector<std::string>& names, const Array& rows,
                                      const Array* contributions, const std::vector<std::string>& passed) const {
  const auto width = static_cast<int64_t>(bundle_.columns.size()) + 1;
  std::string out;
  if (!names.empty()) out.reserve(names.size() * (names.back().size() + kUsualPrediction));
  for (size_t i = 0; options_.form != Form::none && i < names.size(); ++i) {
    const float* row = rows.data<float>() + static_cast<int64_t>(i) * outputs_;
    const Added added =
        contributions ? contributions->data<double>() + static_cast<int64_t>(i) * groups_ * width : nullptr;
    if (!options_.columns.empty()) {
      add_record(out, names[i], row, passed.data() + i * inputs_, added);
    } else if (probabilities_) {
      add_text(out, names[i], row, added);
    } else {
      add_values(out, names[i], row, added);
    }
  }
  return out;
}

void PredictionWriter::write_text(const std::string& text, const Array& rows) {
  if (!text.empty()) put(text);
  const auto floats = static_cast<size_t>(rows.numel());
  if (rows_ && std::fwrite(rows.raw(), sizeof(float), floats, rows_) != floats) cannot_write(options_.npy);
  count_ += rows.shape()[0];
}

std::string PredictionWriter::added_cells(Added added, int64_t group) const {
  std::string out;
  const auto width = static_cast<int64_t>(bundle_.columns.size()) + 1;
  for (int64_t c = 0; added && c < width; ++c) out += cat(",", added[(groups_ == 1 ? 0 : group) * width + c]);
  return out;
}

// "shap" and "base" of the sum; of several sums by class.
Json PredictionWriter::added_members(Added added) const {
  const size_t width = bundle_.columns.size() + 1;
  Json shap = Json::object(), base = Json::object();
  for (int64_t g = 0; g < groups_; ++g) {
    Json one = Json::object();
    const double* const from = added + static_cast<size_t>(g) * width;
    for (size_t c = 0; c + 1 < width; ++c) one[bundle_.columns[c].name] = from[c];
    if (groups_ == 1) return {{"shap", one}, {"base", from[width - 1]}};
    const std::string name = probabilities_ ? deploy::class_name(bundle_, g) : cat(g);
    shap[name] = std::move(one);
    base[name] = from[width - 1];
  }
  return {{"shap", shap}, {"base", base}};
}

std::string PredictionWriter::first_column(const std::string& name) const {
  std::string out = printable(name);
  out.resize(std::max(width_, out.size()), ' ');
  return out;
}

std::vector<int64_t> PredictionWriter::ranked_classes(const float* row) const {
  if (options_.form == Form::csv && options_.top == 1) return {bundle_.predicted(row, outputs_)};
  std::vector<int64_t> order(static_cast<size_t>(outputs_));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return row[a] > row[b]; });
  std::iter_swap(order.begin(), std::find(order.begin(), order.end(), bundle_.predicted(row, outputs_)));
  return order;
}

void PredictionWriter::add_record(std::string& out, const std::string& name, const float* row,
                                  const std::string* passed, Added added) const {
  const bool ranked = probabilities_ && !bundle_.multilabel();
  const std::vector<int64_t> order = ranked ? ranked_classes(row) : std::vector<int64_t>{0};
  for (size_t i = 0; i < std::min(options_.top, order.size()); ++i) {
    for (const CsvColumn& c : options_.columns) {
      if (&c != &options_.columns.front()) out += ',';
      switch (c.of) {
        case CsvColumn::Of::place: io::add_csv_field(out, name); break;
        case CsvColumn::Of::input: io::add_csv_field(out, passed[c.index]); break;
        case CsvColumn::Of::prediction:
          if (probabilities_) {
            io::add_csv_field(out, deploy::class_name(bundle_, order[i]));
          } else {
            out += cat(row[0]);
          }
          break;
        case CsvColumn::Of::value: out += cat(row[c.index]); break;
        case CsvColumn::Of::labels: io::add_csv_field(out, join(labels_in(row), "|")); break;
        case CsvColumn::Of::confidence: add_fixed(out, row[order[i]]); break;
        case CsvColumn::Of::probability: add_fixed(out, row[c.index]); break;
      }
    }
    if (added) out += added_cells(added, order[i]);
    out += '\n';
  }
}

std::vector<std::string> PredictionWriter::labels_in(const float* row) const {
  std::vector<std::string> names;
  for (const int64_t label : bundle_.labels_in(row, outputs_)) names.push_back(deploy::class_name(bundle_, label));
  return names;
}

// Appends a line "a.png  7  0.9981   (1 0.0012, 9 0.0004)"; of several labels "a.png  red, round  (red 0.9, ...)".
void PredictionWriter::add_text(std::string& out, const std::string& name, const float* row, Added added) const {
  const std::vector<int64_t> order = ranked_classes(row);
  const size_t top = std::min(options_.top, order.size());
  const auto class_of = [&](size_t i) { return deploy::class_name(bundle_, order[i]); };
  const char* key = bundle_.preprocessing.text() ? "text" : "path";
  switch (options_.form) {
    case Form::csv:
      for (size_t i = 0; i < top; ++i) {
        out += cat(io::csv_field(name), ",", io::csv_field(class_of(i)), ",");
        add_fixed(out, row[order[i]]);
        out += added_cells(added, order[i]) + "\n";
      }
      return;
    case Form::json: {
      Json all = Json::object();
      for (int64_t i = 0; i < outputs_; ++i) all[deploy::class_name(bundle_, i)] = row[i];
      Json j = {{key, name}};
      if (bundle_.multilabel()) {
        j["labels"] = labels_in(row);
      } else {
        j.update({{"class", class_of(0)}, {"index", order[0]}, {"probability", row[order[0]]}});
      }
      if (bundle_.threshold) j["threshold"] = *bundle_.threshold;
      j["probabilities"] = all;
      if (added) j.update(added_members(added));
      out += dump(j);
      return;
    }
    case Form::jsonl: {
      Json best = Json::array();
      for (size_t i = 0; i < top; ++i) {
        best.push_back({{"class", class_of(i)}, {"index", order[i]}, {"probability", row[order[i]]}});
      }
      Json j = {{key, name}};
      if (bundle_.multilabel()) j["labels"] = labels_in(row);
      j["top"] = best;
      if (added) j.update(added_members(added));
      out += dump(j);
      return;
    }
    default: break;
  }
  std::vector<std::string> others;
  for (size_t i = bundle_.multilabel() ? 0 : 1; i < top; ++i)
    others.push_back(cat(printable(class_of(i)), " ", fixed(row[order[i]], 4)));
  if (bundle_.multilabel()) {
    const std::string labels = printable(join(labels_in(row), ", "));
    out += cat(first_column(name), "  ", labels.empty() ? "no label" : labels, "  (", join(others, ", "), ")\n");
    return;
  }
  out += cat(first_column(name), "  ", printable(class_of(0)), "  ", fixed(row[order[0]], 4),
             others.empty() ? "" : cat("  (", join(others, ", "), ")"), "\n");
}

// Appends the values of a regression: "a.npy  1.25 -0.5", or a JSON document, or path,output,value records.
void PredictionWriter::add_values(std::string& out, const std::string& name, const float* row, Added added) const {
  if (options_.form == Form::json || options_.form == Form::jsonl) {
    Json j = {{bundle_.preprocessing.text() ? "text" : "path", name},
              {"values", std::vector<float>(row, row + outputs_)}};
    if (!bundle_.targets.empty()) j["targets"] = bundle_.targets;
    if (added) j.update(added_members(added));
    out += dump(j);
    return;
  }
  if (options_.form == Form::csv) {
    for (int64_t i = 0; i < outputs_; ++i) {
      io::add_csv_field(out, name);
      out += cat(",", i, ",", row[i], added_cells(added, i), "\n");
    }
    return;
  }
  out += first_column(name) + " ";
  for (int64_t i = 0; i < outputs_; ++i) {
    const std::string target = bundle_.targets.empty() ? "" : printable(bundle_.targets[static_cast<size_t>(i)]);
    out += cat(" ", target, target.empty() ? "" : " ", row[i]);
  }
  out += "\n";
}

void PredictionWriter::commit() {
  if (rows_) {
    io::AtomicFile npy(options_.npy);
    npy.write(std::string_view(io::npy_header(DType::f32, {count_, outputs_})));
    // Rewind() would clear errors.
    if (std::fflush(rows_) != 0) cannot_write(cat(options_.npy, ", by a temporary file"));
    std::rewind(rows_);
    char block[1 << 16];
    for (size_t n = 0; (n = std::fread(block, 1, sizeof block, rows_)) > 0;) npy.write(block, n);
    if (std::ferror(rows_)) cannot_write(options_.npy);
    npy.commit();
  }
  if (file_) file_->commit();
}

}  // namespace freight::app
