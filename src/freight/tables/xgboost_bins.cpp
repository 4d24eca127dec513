// See xgboost_bins.h.
#include "freight/tables/xgboost_bins.h"

#include <algorithm>
#include <exception>

#include "freight/base/strings.h"
#include "freight/tables/xgboost_model.h"

namespace freight::tables {

namespace {

// XGBoost asks for all batches several times: for their borders, then for their bins.
class Batches {
 public:
  Batches(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows, const BinsAsked& asked)
      : library_(library),
        columns_(columns),
        rows_(rows),
        weights_(asked.weights),
        kinds_(columns.kinds()),
        most_(std::max<int64_t>(asked.cells_at_once / std::max<int64_t>(columns.count(), 1), 1)) {
    void* made = nullptr;
    library.check(library->XGProxyDMatrixCreate(&made), "a batch of rows");
    proxy_ = owned_matrix(library, made);
  }

  void* proxy() const { return proxy_.get(); }
  void rewind() { at_ = 0; }
  // 1 with the next batch, 0 at the end; nothing may be thrown through XGBoost.
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
                   "the kinds of columns");
    at_ = end;
  }

  const Xgboost& library_;
  const TreeColumns& columns_;
  const store::Rows& rows_;
  const std::vector<float>& weights_;
  std::vector<const char*> kinds_;
  int64_t most_, at_ = 0;  // rows
  XgboostHandle proxy_;
  Array features_;  // of the batch at hand, which XGBoost reads until it asks for the next one
  std::vector<float> labels_;
  std::exception_ptr fault_;
};

}  // namespace

XgboostHandle binned_matrix(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows,
                            const BinsAsked& asked) {
  Batches batches(library, columns, rows, asked);
  void* made = nullptr;
  const int result = library->XGQuantileDMatrixCreateFromCallback(
      &batches, batches.proxy(), nullptr, [](void* b) { static_cast<Batches*>(b)->rewind(); },
      [](void* b) { return static_cast<Batches*>(b)->next(); },
      cat(R"({"missing": NaN, "max_bin": 256, "nthread": )", asked.threads, "}").c_str(), &made);
  XgboostHandle matrix = result == 0 ? owned_matrix(library, made) : nullptr;
  batches.throw_fault();
  library.check(result, "the bins of the rows");
  return matrix;
}

}  // namespace freight::tables
