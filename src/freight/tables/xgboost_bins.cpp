// See xgboost_bins.h.
#include "freight/tables/xgboost_bins.h"

#include <algorithm>
#include <exception>
#include <unordered_set>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/io/json_library.h"
#include "freight/tables/xgboost_model.h"

namespace freight::tables {

namespace {

// The number of rows of each group; the rows of a group are consecutive.
std::vector<uint32_t> sizes_of_groups(const store::Rows& rows) {
  const std::vector<int64_t> begins = rows.group_begins();
  std::vector<uint32_t> sizes;
  std::unordered_set<int64_t> seen;
  for (size_t g = 0; g < begins.size(); ++g) {
    const int64_t group = rows.groups->data<int64_t>()[begins[g]];
    FREIGHT_CHECK(seen.insert(group).second, "rows of group ", group, " stand apart: a ranking needs them in turn");
    sizes.push_back(static_cast<uint32_t>((g + 1 < begins.size() ? begins[g + 1] : rows.count()) - begins[g]));
  }
  return sizes;
}

// XGBoost requests all batches several times: for the borders of bins, then for the bins.
class Batches {
 public:
  Batches(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows, const BinningOptions& options)
      : library_(library),
        columns_(columns),
        rows_(rows),
        weights_(options.weights),
        kinds_(columns.kinds()),
        most_(std::max<int64_t>(options.cells_at_once / std::max<int64_t>(columns.count(), 1), 1)) {
    void* made = nullptr;
    library.check(library->XGProxyDMatrixCreate(&made), "a batch of rows");
    proxy_ = owned_matrix(library, made);
  }

  void* proxy() const { return proxy_.get(); }
  void rewind() { at_ = 0; }
  // 1 with the next batch, 0 at the end; no exception may pass through XGBoost.
  int next() noexcept {
    try {
      if (at_ == rows_.count()) return 0;
      give(at_, std::min(rows_.count(), at_ + most_));
      return 1;
    } catch (...) {
      fault_ = std::current_exception();
      return 0;
    }
  }
  void throw_fault() const {
    if (fault_) std::rethrow_exception(fault_);
  }

 private:
  void give(int64_t begin, int64_t end) {
    features_ = columns_.features(rows_.values, begin, end);
    labels_.clear();
    for (int64_t i = begin; i < end; ++i) {
      labels_.push_back(rows_.classification() ? static_cast<float>(rows_.labels.data<int64_t>()[i])
                                               : rows_.labels.data<float>()[i]);
    }
    void* const to = proxy_.get();
    library_.check(library_->XGProxyDMatrixSetDataDense(to, array_interface(features_).c_str()), "the rows");
    library_.check(library_->XGDMatrixSetFloatInfo(to, "label", labels_.data(), labels_.size()), "the labels");
    if (!weights_.empty()) {
      library_.check(library_->XGDMatrixSetFloatInfo(to, "weight", weights_.data() + begin, labels_.size()),
                     "the weights of rows");
    }
    library_.check(library_->XGDMatrixSetStrFeatureInfo(to, "feature_type", kinds_.data(), kinds_.size()),
                   "the column types");
    at_ = end;
  }

  const Xgboost& library_;
  const TreeColumns& columns_;
  const store::Rows& rows_;
  const std::vector<float>& weights_;
  std::vector<const char*> kinds_;
  int64_t most_, at_ = 0;  // rows
  XgboostHandle proxy_;
  Array features_;  // of the current batch, which XGBoost reads until it requests the next one
  std::vector<float> labels_;
  std::exception_ptr fault_;
};

}  // namespace

bool can_be_binned(const store::Rows& rows) { return !rows.ranked || !rows.weights; }

void set_groups(const Xgboost& library, const XgboostHandle& matrix, const store::Rows& rows) {
  const std::vector<uint32_t> sizes = sizes_of_groups(rows);
  const std::string interface = cat(R"({"data": [)", reinterpret_cast<uintptr_t>(sizes.data()),
                                    R"(, true], "shape": [)", sizes.size(), R"(], "typestr": "<u4", "version": 3})");
  library.check(library->XGDMatrixSetInfoFromInterface(matrix.get(), "group", interface.c_str()), "the groups");
}

void set_weights(const Xgboost& library, const XgboostHandle& matrix, const store::Rows& rows,
                 const std::vector<float>& weights) {
  std::vector<float> kept = weights;
  if (rows.ranked) {
    kept.clear();
    for (const int64_t first : rows.group_begins()) kept.push_back(weights[static_cast<size_t>(first)]);
  }
  library.check(library->XGDMatrixSetFloatInfo(matrix.get(), "weight", kept.data(), kept.size()),
                rows.ranked ? "the weights of groups" : "the weights of rows");
}

XgboostHandle binned_matrix(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows,
                            const BinningOptions& options) {
  FREIGHT_CHECK(!rows.ranked || options.weights.empty(), "the rows of a weighed ranking are handed over as cells");
  Batches batches(library, columns, rows, options);
  void* made = nullptr;
  const int result = library->XGQuantileDMatrixCreateFromCallback(
      &batches, batches.proxy(), options.bins_of.get(), [](void* b) { static_cast<Batches*>(b)->rewind(); },
      [](void* b) { return static_cast<Batches*>(b)->next(); },
      cat(R"({"missing": NaN, "max_bin": 256, "nthread": )", options.threads, "}").c_str(), &made);
  XgboostHandle matrix = result == 0 ? owned_matrix(library, made) : nullptr;
  batches.throw_fault();
  library.check(result, "the bins of the rows");
  // Only now that all rows are there, since a batch may end within a group.
  if (rows.ranked) set_groups(library, matrix, rows);
  return matrix;
}

XgboostHandle paged_matrix(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows,
                           const BinningOptions& options, const std::string& prefix) {
  FREIGHT_CHECK(!rows.ranked || options.weights.empty(), "the rows of a weighed ranking are handed over as cells");
  Batches batches(library, columns, rows, options);
  void* made = nullptr;
  const std::string config = cat(R"({"missing": NaN, "cache_prefix": )", nlohmann::json(prefix).dump(),
                                 R"(, "nthread": )", options.threads, "}");
  const int result = library->XGDMatrixCreateFromCallback(
      &batches, batches.proxy(), [](void* b) { static_cast<Batches*>(b)->rewind(); },
      [](void* b) { return static_cast<Batches*>(b)->next(); }, config.c_str(), &made);
  XgboostHandle matrix = result == 0 ? owned_matrix(library, made) : nullptr;
  batches.throw_fault();
  library.check(result, cat("the rows in ", prefix));
  if (rows.ranked) set_groups(library, matrix, rows);
  return matrix;
}

}  // namespace freight::tables
