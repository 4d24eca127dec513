// See predict_output.h.
#include "predict_output.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include <nlohmann/json.hpp>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/io/npy_internal.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWidest = 80;  // of the first column

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

// RFC 4180.
std::string csv_field(const std::string& text) {
  const bool plain = std::none_of(text.begin(), text.end(),
                                  [](char c) { return c == ',' || c == '"' || static_cast<unsigned char>(c) < ' '; });
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

[[noreturn]] void cannot_write(const std::string& what) {
  fail(ErrorKind::runtime, what, "cannot write: ", std::strerror(errno));
}

}  // namespace

PredictionWriter::PredictionWriter(const deploy::Predictor& predictor, const OutputOptions& options)
    : bundle_(predictor.bundle()),
      options_(options),
      probabilities_(predictor.probabilities()),
      outputs_(predictor.outputs()) {
  if (!options.file.empty()) file_ = std::make_unique<io::AtomicFile>(options.file);
  if (!options.npy.empty() && !(rows_ = std::tmpfile())) cannot_write("a temporary file");
  const char* key = bundle_.preprocessing.text() ? "text" : "path";
  if (options.form == Form::csv) put(cat(key, ",", probabilities_ ? "class,probability" : "output,value", "\n"));
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

void PredictionWriter::write(const std::vector<std::string>& names, const Array& rows) {
  for (const std::string& name : names) width_ = std::max(width_, std::min(name.size(), kWidest));
  std::string out;
  for (size_t i = 0; options_.form != Form::none && i < names.size(); ++i) {
    const float* row = rows.data<float>() + static_cast<int64_t>(i) * outputs_;
    out += probabilities_ ? text(names[i], row) : values(names[i], row);
  }
  if (!out.empty()) put(out);
  const auto floats = static_cast<size_t>(rows.numel());
  if (rows_ && std::fwrite(rows.raw(), sizeof(float), floats, rows_) != floats) cannot_write(options_.npy);
  count_ += static_cast<int64_t>(names.size());
}

std::string PredictionWriter::first_column(const std::string& name) const {
  std::string out = printable(name);
  out.resize(std::max(width_, out.size()), ' ');
  return out;
}

// A line is "a.png  7  0.9981   (1 0.0012, 9 0.0004)".
std::string PredictionWriter::text(const std::string& name, const float* row) const {
  std::vector<int64_t> order(static_cast<size_t>(outputs_));  // the told one, then the likeliest; ties by number
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return row[a] > row[b]; });
  std::iter_swap(order.begin(), std::find(order.begin(), order.end(), bundle_.told(row, outputs_)));
  const size_t top = std::min(options_.top, order.size());
  const auto class_of = [&](size_t i) { return deploy::class_name(bundle_, order[i]); };
  const char* key = bundle_.preprocessing.text() ? "text" : "path";
  std::string out;
  switch (options_.form) {
    case Form::csv:
      for (size_t i = 0; i < top; ++i) {
        out += cat(csv_field(name), ",", csv_field(class_of(i)), ",", fixed(row[order[i]], 6), "\n");
      }
      return out;
    case Form::json: {
      Json all = Json::object();
      for (int64_t i = 0; i < outputs_; ++i) all[deploy::class_name(bundle_, i)] = row[i];
      return dump({{key, name},
                   {"class", class_of(0)},
                   {"index", order[0]},
                   {"probability", row[order[0]]},
                   {"probabilities", all}});
    }
    case Form::jsonl: {
      Json best = Json::array();
      for (size_t i = 0; i < top; ++i) {
        best.push_back({{"class", class_of(i)}, {"index", order[i]}, {"probability", row[order[i]]}});
      }
      return dump({{key, name}, {"top", best}});
    }
    default: break;
  }
  std::vector<std::string> others;
  for (size_t i = 1; i < top; ++i) others.push_back(cat(printable(class_of(i)), " ", fixed(row[order[i]], 4)));
  return cat(first_column(name), "  ", printable(class_of(0)), "  ", fixed(row[order[0]], 4),
             others.empty() ? "" : cat("  (", join(others, ", "), ")"), "\n");
}

// A model that regresses gives "a.npy  1.25 -0.5", or a JSON document, or path,output,value records.
std::string PredictionWriter::values(const std::string& name, const float* row) const {
  if (options_.form == Form::json || options_.form == Form::jsonl) {
    return dump({{"path", name}, {"values", std::vector<float>(row, row + outputs_)}});
  }
  std::string out;
  if (options_.form == Form::csv) {
    for (int64_t i = 0; i < outputs_; ++i) out += cat(csv_field(name), ",", i, ",", row[i], "\n");
    return out;
  }
  out = first_column(name) + " ";
  for (int64_t i = 0; i < outputs_; ++i) out += cat(" ", row[i]);
  return out + "\n";
}

void PredictionWriter::commit() {
  if (rows_) {
    io::AtomicFile npy(options_.npy);
    npy.write(std::string_view(io::npy_header(DType::f32, {count_, outputs_})));
    std::rewind(rows_);
    char block[1 << 16];
    for (size_t n = 0; (n = std::fread(block, 1, sizeof block, rows_)) > 0;) npy.write(block, n);
    if (std::ferror(rows_)) cannot_write(options_.npy);
    npy.commit();
  }
  if (file_) file_->commit();
}

}  // namespace freight::app
