// See xgboost_model.h.
#include "freight/tables/xgboost_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/io/json_internal.h"

namespace freight::tables {

namespace {

constexpr const char* kTrees = "xgboost.trees";
constexpr const char* kOrigins = "xgboost.origins";
constexpr const char* kMade = "xgboost";  // the entry of metadata
constexpr int64_t kRowsAtOnce = 1 << 16;  // bounds the memory of a prediction
constexpr double kMostOfRange = 1e-3;     // that f32 may move the numbers of a column by

XgboostVersion version_in(const std::string& text, const std::string& path) {
  XgboostVersion v;
  const std::vector<std::string> parts = split(text, '.');
  int* const to[] = {&v.major, &v.minor, &v.patch};
  bool right = parts.size() == 3;
  for (size_t i = 0; right && i < 3; ++i) {
    const char* const end = parts[i].data() + parts[i].size();
    const auto [stop, error] = std::from_chars(parts[i].data(), end, *to[i]);
    right = error == std::errc() && stop == end;
  }
  if (!right) fail(ErrorKind::checkpoint, path, "the version of XGBoost: got ", excerpt(text));
  return v;
}

}  // namespace

TreeColumns::TreeColumns(const std::vector<store::Column>& columns, const Array* origins)
    : origins_(columns.size(), 0.0) {
  for (const store::Column& c : columns) words_.push_back(c.words);
  if (origins) std::copy_n(origins->data<double>(), columns.size(), origins_.begin());
}

TreeColumns::TreeColumns(const std::vector<store::Column>& columns, const Array& rows)
    : TreeColumns(columns, static_cast<const Array*>(nullptr)) {
  const int64_t n = rows.shape()[0], width = count();
  for (int64_t c = 0; c < width; ++c) {
    if (words(c)) continue;
    double least = std::numeric_limits<double>::infinity(), most = -least, moved = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double v = rows.data<double>()[i * width + c];
      if (std::isnan(v)) continue;
      least = std::min(least, v);
      most = std::max(most, v);
      moved = std::max(moved, std::fabs(v - static_cast<double>(static_cast<float>(v))));
    }
    if (std::isfinite(moved) && moved > kMostOfRange * (most - least)) origins_[static_cast<size_t>(c)] = least;
  }
}

bool TreeColumns::shifted() const {
  return std::any_of(origins_.begin(), origins_.end(), [](double o) { return o != 0; });
}

Array TreeColumns::features(const Array& rows, int64_t begin, int64_t end) const {
  constexpr double kMost = std::numeric_limits<float>::max();
  const int64_t width = count();
  Array out(DType::f32, {end - begin, width});
  const double* from = rows.data<double>() + begin * width;
  float* to = out.data<float>();
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t c = 0; c < width; ++c, ++from, ++to) {
      const auto column = static_cast<size_t>(c);
      const double v = words_[column] && *from == store::kUnknownWord ? std::numeric_limits<double>::quiet_NaN()
                                                                      : *from - origins_[column];
      *to = static_cast<float>(std::isnan(v) ? v : std::clamp(v, -kMost, kMost));
    }
  }
  return out;
}

std::string array_interface(const Array& features) {
  return cat(R"({"data": [)", reinterpret_cast<uintptr_t>(features.raw()), R"(, true], "shape": [)",
             features.shape()[0], ", ", features.shape()[1], R"(], "typestr": "<f4", "version": 3})");
}

void spread_answers(const float* answers, int64_t rows, int64_t classes, float* out) {
  if (classes != 2) {
    std::copy_n(answers, rows * std::max<int64_t>(classes, 1), out);
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    out[2 * i] = 1.0f - answers[i];
    out[2 * i + 1] = answers[i];
  }
}

Trees::Trees(const Xgboost& library, Array bytes, TreeColumns columns, int64_t classes, TreesMade made,
             const std::string& path)
    : library_(library),
      bytes_(std::move(bytes)),
      columns_(std::move(columns)),
      classes_(classes),
      made_(std::move(made)),
      facts_(read_trees({bytes_.data<uint8_t>(), bytes_.bytes()}, path, columns_.count(), classes > 2 ? classes : 1)) {
  void* booster = nullptr;
  library_.check(library_->XGBoosterCreate(nullptr, 0, &booster), "a booster");
  booster_ = owned_booster(library_, booster);
  if (library_->XGBoosterLoadModelFromBuffer(booster, bytes_.raw(), bytes_.bytes()) != 0) {
    fail(ErrorKind::checkpoint, path, "XGBoost ", library_.version().text(),
         " does not read its trees: ", excerpt(library_->XGBGetLastError()));
  }
  // The first answer settles the booster; those that follow may be asked for by several threads.
  Array row(DType::f64, {1, columns_.count()});
  std::fill_n(row.data<double>(), columns_.count(), std::numeric_limits<double>::quiet_NaN());
  run(row);
}

Array Trees::run(const Array& rows) const {
  const int64_t n = rows.shape()[0], k = outputs();
  Array out(DType::f32, {n, k});
  for (int64_t begin = 0; begin < n; begin += kRowsAtOnce) {
    const int64_t end = std::min(n, begin + kRowsAtOnce);
    const Array features = columns_.features(rows, begin, end);
    const uint64_t* shape = nullptr;
    uint64_t rank = 0;
    const float* answers = nullptr;
    library_.check(
        library_->XGBoosterPredictFromDense(
            booster_.get(), array_interface(features).c_str(),
            R"({"type": 0, "training": false, "iteration_begin": 0, "iteration_end": 0, "strict_shape": true, "missing": NaN, "cache_id": 0})",
            nullptr, &shape, &rank, &answers),
        "predictions");
    uint64_t count = 1;
    for (uint64_t i = 0; i < rank; ++i) count *= shape[i];
    const int64_t need = (end - begin) * (classes_ > 2 ? classes_ : 1);
    FREIGHT_CHECK(count == static_cast<uint64_t>(need), "XGBoost gave ", count, " answers, need ", need);
    spread_answers(answers, end - begin, classes_, out.data<float>() + begin * k);
  }
  return out;
}

std::vector<std::string> Trees::lines() const {
  std::vector<std::string> lines = {
      cat(with_commas(facts_.trees), " trees of XGBoost ", made_.version, ", ", facts_.objective),
      cat(with_commas(facts_.leaves), " leaves, ", facts_.depth, " levels at most")};
  if (made_.fitted > made_.rounds) lines.push_back(cat("the first ", made_.rounds, " of ", made_.fitted, " rounds"));
  return lines;
}

void Trees::write(io::SafeTensors& file) const {
  file.tensors.emplace_back(kTrees, bytes_);
  if (columns_.shifted()) {
    Array origins(DType::f64, {columns_.count()});
    std::copy(columns_.origins().begin(), columns_.origins().end(), origins.data<double>());
    file.tensors.emplace_back(kOrigins, origins);
  }
  file.metadata[kMade] =
      nlohmann::ordered_json{{"version", made_.version}, {"rounds", made_.rounds}, {"fitted", made_.fitted}}.dump();
}

std::shared_ptr<const store::RowModel> read_stored_trees(const std::string& learner, const io::SafeTensors& file,
                                                         const std::string& path, const store::RowShape& shape) {
  const Array *bytes = file.find(kTrees), *origins = file.find(kOrigins);
  if (!bytes || bytes->dtype() != DType::u8 || bytes->shape().rank() != 1) {
    fail(ErrorKind::checkpoint, path, "the tensor ", kTrees, " is missing, or not u8[N]");
  }
  const auto width = static_cast<int64_t>(shape.columns.size());
  if (origins && (origins->dtype() != DType::f64 || origins->shape() != Shape{width})) {
    fail(ErrorKind::checkpoint, path, "the tensor ", kOrigins, " is not f64[", width, "]");
  }
  TreesMade made{.learner = learner, .version = {}};
  const auto entry = file.metadata.find(kMade);
  if (entry == file.metadata.end()) fail(ErrorKind::checkpoint, path, "its metadata has no entry ", kMade);
  try {
    const auto j = nlohmann::json::parse(entry->second);
    made.version = j.at("version").get<std::string>();
    made.rounds = j.at("rounds").get<int64_t>();
    made.fitted = j.at("fitted").get<int64_t>();
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::checkpoint, path, "metadata: ", kMade, ": ", io::json_fault(e));
  }
  const Xgboost& library = xgboost();
  const XgboostVersion stored = version_in(made.version, path);
  if (std::pair(stored.major, stored.minor) > std::pair(library.version().major, library.version().minor)) {
    fail(ErrorKind::device, path, "its trees are XGBoost ", made.version, "'s, which ", library.path(), ", ",
         library.version().text(), ", may not read as they are meant; ",
         "install a newer one (pip install xgboost-cpu) or name one in FREIGHT_XGBOOST");
  }
  return std::make_shared<Trees>(library, *bytes, TreeColumns(shape.columns, origins),
                                 static_cast<int64_t>(shape.classes.size()), std::move(made), path);
}

}  // namespace freight::tables
