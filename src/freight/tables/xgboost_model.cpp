// See xgboost_model.h.
#include "freight/tables/xgboost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/cpu_share.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/tables/xgboost_export.h"

namespace freight::tables {

namespace {

const std::string kTrees = cat(kTreePrefix, "trees");
constexpr const char* kFitRecordKey = "xgboost";  // the key in the metadata
constexpr int64_t kRowsAtOnce = 512;              // rows of a thread: their features stay in the second-level cache
constexpr int64_t kRowsExplained = 1 << 16;       // at once, to bound the memory
constexpr const char* kMarginsFromDense =
    R"({"type": 1, "training": false, "iteration_begin": 0, "iteration_end": 0, "strict_shape": true, "missing": NaN, "cache_id": 0})";
constexpr double kNearBase = 1e-5;  // as a fraction of the summands: sums of f32
const std::vector<std::string> kObjectivesOfValues = {"reg:squarederror", "reg:absoluteerror", "reg:quantileerror",
                                                      "count:poisson",    "reg:tweedie",       "rank:ndcg",
                                                      "rank:pairwise"};

XgboostVersion version_in(const std::string& text, const std::string& path) {
  XgboostVersion v;
  const std::vector<std::string> parts = split(text, '.');
  int* const to[] = {&v.major, &v.minor, &v.patch};
  bool right = parts.size() == 3;
  for (size_t i = 0; right && i < 3; ++i) {
    const std::optional<int> number = parse_number<int>(parts[i]);
    right = number.has_value();
    *to[i] = number.value_or(0);
  }
  if (!right) fail(ErrorKind::checkpoint, path, "the version of XGBoost: got ", excerpt(text));
  return v;
}

void need_count(const uint64_t* shape, uint64_t rank, int64_t need) {
  uint64_t count = 1;
  for (uint64_t i = 0; i < rank; ++i) count *= shape[i];
  FREIGHT_CHECK(count == static_cast<uint64_t>(need), "XGBoost returned ", count, " predictions, expected ", need);
}

// XGBoost's functions from a sum and back, in f32 as it computes them: predictions have exactly XGBoost's bits.
float logistic_of(float sum) {
  constexpr float kLargest = 88.7f, kNotZero = 1e-16f;
  return 1.0f / (std::exp(std::min(-sum, kLargest)) + 1.0f + kNotZero);
}

void softmax_of(float* sums, int64_t count) {
  const float most = *std::max_element(sums, sums + count);
  double all = 0;
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = std::exp(sums[i] - most);
    all += static_cast<double>(sums[i]);
  }
  for (int64_t i = 0; i < count; ++i) sums[i] /= static_cast<float>(all);
}

// Converts sums f32 (N, groups) to predictions, in place.
void apply_link(store::RowLink link, std::vector<float>& sums, int64_t groups) {
  switch (link) {
    case store::RowLink::identity: return;
    case store::RowLink::exponential:
      for (float& s : sums) s = std::exp(s);
      return;
    case store::RowLink::logistic:
      for (float& s : sums) s = logistic_of(s);
      return;
    case store::RowLink::softmax:
      for (size_t i = 0; i < sums.size(); i += static_cast<size_t>(groups)) softmax_of(sums.data() + i, groups);
      return;
  }
}

float inverse_link(store::RowLink link, float prediction) {
  if (link == store::RowLink::logistic) return -std::log(1.0f / prediction - 1.0f);
  return link == store::RowLink::exponential ? std::log(prediction) : prediction;
}

}  // namespace

std::string array_interface(const Array& features) {
  return cat(R"({"data": [)", reinterpret_cast<uintptr_t>(features.raw()), R"(, true], "shape": [)",
             features.shape()[0], ", ", features.shape()[1], R"(], "typestr": "<f4", "version": 3})");
}

XgboostHandle matrix_of_features(const Xgboost& library, const TreeColumns& columns, const Array& features,
                                 const std::string& threads) {
  void* made = nullptr;
  library.check(library->XGDMatrixCreateFromDense(array_interface(features).c_str(),
                                                  cat(R"({"missing": NaN, "nthread": )", threads, "}").c_str(), &made),
                "the rows");
  XgboostHandle matrix = owned_matrix(library, made);
  std::vector<const char*> kinds = columns.kinds();
  library.check(library->XGDMatrixSetStrFeatureInfo(made, "feature_type", kinds.data(), kinds.size()),
                "the column types");
  return matrix;
}

std::vector<std::string> objectives_of_trees(int64_t classes) {
  if (classes > 2) return {"multi:softprob"};
  if (classes > 0) return {"binary:logistic"};
  return kObjectivesOfValues;
}

void expand_predictions(const float* predictions, int64_t rows, int64_t classes, float* out) {
  if (classes != 2) {
    std::copy_n(predictions, rows * std::max<int64_t>(classes, 1), out);
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    out[2 * i] = 1.0f - predictions[i];
    out[2 * i + 1] = predictions[i];
  }
}

XgboostModel::XgboostModel(const Xgboost& library, Array bytes, TreeColumns columns, int64_t classes,
                           TreeFitRecord record, const std::string& path)
    : library_(library),
      bytes_(std::move(bytes)),
      columns_(std::move(columns)),
      classes_(classes),
      fit_record_(std::move(record)) {
  ReadTrees read =
      read_trees({bytes_.data<uint8_t>(), bytes_.bytes()}, path, columns_.count(), classes > 2 ? classes : 1);
  facts_ = std::move(read.facts);
  const std::vector<std::string> may = objectives_of_trees(classes);
  if (std::find(may.begin(), may.end(), facts_.objective) == may.end()) {
    fail(ErrorKind::checkpoint, path, "the saved trees are damaged: expected ", join(may, " or "),
         ", got the objective ", excerpt(facts_.objective));
  }
  void* booster = nullptr;
  library_.check(library_->XGBoosterCreate(nullptr, 0, &booster), "a booster");
  booster_ = owned_booster(library_, booster);
  if (library_->XGBoosterLoadModelFromBuffer(booster, bytes_.raw(), bytes_.bytes()) != 0) {
    fail(ErrorKind::checkpoint, path, "XGBoost ", library_.version().text(),
         " does not read its trees: ", excerpt(library_->XGBGetLastError()));
  }
  library_.check(library_->XGBoosterSetParam(booster, "nthread", cat(thread_count()).c_str()), "nthread");
  try {
    const std::vector<float> begun = bases(read.trees);
    if (!std::all_of(begun.begin(), begun.end(), [](float b) { return std::isfinite(b); })) {
      fail(ErrorKind::checkpoint, path, "the saved trees are damaged: predictions begin with NaN or infinity");
    }
    sums_ = TreeSums(read.trees, begun);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::checkpoint) throw;
    fail(ErrorKind::checkpoint, path, "the saved trees are damaged: ", excerpt(e.what()));
  }
}

store::RowLink XgboostModel::link() const {
  const std::string& o = facts_.objective;
  return o == "binary:logistic"                       ? store::RowLink::logistic
         : o == "multi:softprob"                      ? store::RowLink::softmax
         : o == "count:poisson" || o == "reg:tweedie" ? store::RowLink::exponential
                                                      : store::RowLink::identity;
}

std::vector<float> XgboostModel::margins_of_no_values() const {
  Array row(DType::f32, {1, columns_.count()});
  std::fill_n(row.data<float>(), columns_.count(), std::numeric_limits<float>::quiet_NaN());
  const uint64_t* shape = nullptr;
  uint64_t rank = 0;
  const float* sums = nullptr;
  library_.check(library_->XGBoosterPredictFromDense(booster_.get(), array_interface(row).c_str(), kMarginsFromDense,
                                                     nullptr, &shape, &rank, &sums),
                 "predictions");
  need_count(shape, rank, groups());
  return {sums, sums + groups()};
}

// The base values. XGBoost has written them in several ways; they are what its sums contain in addition to the leaves.
// The number in the file is used if it agrees, since f32 sums of many leaves are less exact.
std::vector<float> XgboostModel::bases(const std::vector<store::Tree>& trees) const {
  const std::vector<float> margins = margins_of_no_values();
  std::vector<double> left(margins.begin(), margins.end()), size(margins.size(), 1.0);
  for (const store::Tree& tree : trees) {
    size_t at = 0;
    while (tree.nodes[at].left >= 0) {
      at = static_cast<size_t>(tree.nodes[at].missing_left ? tree.nodes[at].left : tree.nodes[at].right);
    }
    const auto group = static_cast<size_t>(tree.group);
    left[group] -= tree.nodes[at].value;
    size[group] += std::fabs(tree.nodes[at].value);
  }
  std::vector<float> all;
  for (size_t g = 0; g < left.size(); ++g) {
    all.push_back(static_cast<float>(left[g]));
    if (facts_.start.size() != 1 && facts_.start.size() != left.size()) continue;
    const float start = inverse_link(link(), facts_.start[facts_.start.size() == 1 ? 0 : g]);
    if (std::fabs(static_cast<double>(start) - left[g]) <= kNearBase * (size[g] + std::fabs(left[g]))) all[g] = start;
  }
  return all;
}

Array XgboostModel::run(const Array& rows) const {
  const int64_t n = rows.shape()[0], k = outputs(), width = columns_.count();
  CpuShare::touch();
  Array out(DType::f32, {n, k});
  parallel_for((n + kRowsAtOnce - 1) / kRowsAtOnce, [&](int64_t chunk) {
    const int64_t begin = chunk * kRowsAtOnce, count = std::min(n - begin, kRowsAtOnce);
    const Array features = columns_.features(rows, begin, begin + count);
    std::vector<float> sums(static_cast<size_t>(count * groups()));
    sums_.sum(features.data<float>(), count, width, sums.data());
    apply_link(link(), sums, groups());
    expand_predictions(sums.data(), count, classes_, out.data<float>() + begin * k);
  });
  return out;
}

Array XgboostModel::margins(const Array& rows) const {
  const int64_t n = rows.shape()[0];
  CpuShare::touch();
  Array out(DType::f64, {n, groups()});
  parallel_for((n + kRowsAtOnce - 1) / kRowsAtOnce, [&](int64_t chunk) {
    const int64_t begin = chunk * kRowsAtOnce, count = std::min(n - begin, kRowsAtOnce);
    std::vector<float> sums(static_cast<size_t>(count * groups()));
    sums_.sum(columns_.features(rows, begin, begin + count).data<float>(), count, columns_.count(), sums.data());
    std::copy(sums.begin(), sums.end(), out.data<double>() + begin * groups());
  });
  return out;
}

Array XgboostModel::contributions(const Array& rows) const {
  const int64_t n = rows.shape()[0], width = groups() * (columns_.count() + 1);
  CpuShare::touch();
  Array out(DType::f64, {n, groups(), columns_.count() + 1});
  const std::lock_guard lock(explaining_);
  for (int64_t begin = 0; begin < n; begin += kRowsExplained) {
    const int64_t end = std::min(n, begin + kRowsExplained);
    const XgboostHandle matrix =
        matrix_of_features(library_, columns_, columns_.features(rows, begin, end), cat(thread_count()));
    const uint64_t* shape = nullptr;
    uint64_t rank = 0;
    const float* found = nullptr;
    library_.check(
        library_->XGBoosterPredictFromDMatrix(
            booster_.get(), matrix.get(),
            R"({"type": 2, "training": false, "iteration_begin": 0, "iteration_end": 0, "strict_shape": true})", &shape,
            &rank, &found),
        "what each column adds");
    need_count(shape, rank, (end - begin) * width);
    std::copy_n(found, (end - begin) * width, out.data<double>() + begin * width);
  }
  return out;
}

std::vector<store::Importance> XgboostModel::importance() const {
  std::vector<double> gain = facts_.gain, cover = facts_.cover;
  for (size_t i = 0; i < gain.size(); ++i) {
    gain[i] /= std::max(facts_.splits[i], 1.0);
    cover[i] /= std::max(facts_.splits[i], 1.0);
  }
  return {{"gain", std::move(gain)}, {"cover", std::move(cover)}, {"splits", facts_.splits}};
}

store::RowForm XgboostModel::form() const {
  store::ForestForm form;
  form.link = link();
  form.bases = sums_.bases();
  form.trees = read_trees({bytes_.data<uint8_t>(), bytes_.bytes()}, "the model", columns_.count(), groups()).trees;
  std::vector<std::vector<int64_t>> level_of(static_cast<size_t>(columns_.count()));  // by category
  for (int64_t c = 0; c < columns_.count(); ++c) {
    form.origins.push_back(columns_.origin(c));
    form.unknown.emplace_back();
    const std::vector<int32_t>& categories = columns_.categories(c);
    for (size_t level = 0; level < categories.size(); ++level) {
      auto& to = categories[level] < 0 ? form.unknown.back() : level_of[static_cast<size_t>(c)];
      to.push_back(static_cast<int64_t>(level));
    }
  }
  for (store::Tree& tree : form.trees) {
    for (store::TreeNode& node : tree.nodes) {
      if (!node.words) continue;
      const std::vector<int64_t>& levels = level_of[static_cast<size_t>(node.column)];
      std::vector<int64_t> known;  // no value of the table has a category without a name
      for (const int64_t category : node.levels) {
        if (category < static_cast<int64_t>(levels.size())) known.push_back(levels[static_cast<size_t>(category)]);
      }
      node.levels = std::move(known);
    }
  }
  return form;
}

std::string XgboostModel::library_file(const std::string& format, const std::vector<std::string>& names) const {
  return exported_trees(library_, booster_.get(), columns_, names, format);
}

std::vector<std::string> XgboostModel::lines() const {
  std::vector<std::string> lines = {
      cat(with_commas(facts_.trees), " trees of XGBoost ", fit_record_.version, ", ", facts_.objective),
      cat(with_commas(facts_.leaves), " leaves, maximum depth ", facts_.depth)};
  if (fit_record_.fitted > fit_record_.rounds)
    lines.push_back(cat("the first ", fit_record_.rounds, " of ", fit_record_.fitted, " rounds"));
  return lines;
}

void XgboostModel::write(io::SafeTensors& file) const {
  file.tensors.emplace_back(kTrees, bytes_);
  columns_.write(file);
  file.metadata[kFitRecordKey] = nlohmann::ordered_json{
      {"version", fit_record_.version},
      {"rounds", fit_record_.rounds},
      {"fitted", fit_record_.fitted}}.dump();
}

std::shared_ptr<const store::RowModel> read_stored_trees(const std::string& learner, const io::SafeTensors& file,
                                                         const std::string& path, const store::RowShape& shape) {
  const Array* bytes = file.find(kTrees);
  if (!bytes || bytes->dtype() != DType::u8 || bytes->shape().rank() != 1) {
    fail(ErrorKind::checkpoint, path, "the tensor ", kTrees, " is missing, or not u8[N]");
  }
  TreeFitRecord record{.learner = learner, .version = {}};
  const auto entry = file.metadata.find(kFitRecordKey);
  if (entry == file.metadata.end()) fail(ErrorKind::checkpoint, path, "its metadata has no entry ", kFitRecordKey);
  try {
    const auto j =
        io::parse_json<nlohmann::json>(entry->second, cat(path, ": metadata: ", kFitRecordKey), ErrorKind::checkpoint);
    record.version = j.at("version").get<std::string>();
    record.rounds = j.at("rounds").get<int64_t>();
    record.fitted = j.at("fitted").get<int64_t>();
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::checkpoint, path, "metadata: ", kFitRecordKey, ": ", io::json_fault(e));
  }
  const Xgboost& library = xgboost();
  const XgboostVersion stored = version_in(record.version, path);
  if (std::pair(stored.major, stored.minor) > std::pair(library.version().major, library.version().minor)) {
    fail(ErrorKind::device, path, "its trees are XGBoost ", record.version, "'s, which ", library.path(), ", ",
         library.version().text(), ", may not read as they are meant; ",
         "install a newer one (pip install xgboost-cpu) or name one in FREIGHT_XGBOOST");
  }
  return std::make_shared<XgboostModel>(library, *bytes, TreeColumns(shape.columns, file, path),
                                        static_cast<int64_t>(shape.classes.size()), std::move(record), path);
}

}  // namespace freight::tables
