// Linear models of tables: least squares, ridge, logistic and Poisson regression. A prediction follows from one sum of
// products per output over the numbers of the design (design.h).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/tables/linear_fit.h"
#include "freight/tables/row_learner.h"

namespace freight::tables {

class LinearModel : public store::RowModel {
 public:
  LinearModel(store::RowLink link, Design design, LinearFit fit, const store::RowShape& shape);
  int64_t outputs() const override;
  bool predicts_classes() const override {
    return link_ == store::RowLink::logistic || link_ == store::RowLink::softmax;
  }
  Array run(const Array& rows) const override;
  int64_t parameters() const override { return fit_.weights.numel() + fit_.intercepts.numel(); }
  std::vector<std::string> lines() const override;
  void write(io::SafeTensors& file) const override;
  bool explains() const override { return true; }
  Array contributions(const Array& rows) const override;
  Array margins(const Array& rows) const override;
  store::RowForm form() const override;

 private:
  // Calls f(i, sums) for each row.
  template <class F>
  void each_row(const Array& rows, F&& f) const;

  store::RowLink link_;
  Design design_;
  LinearFit fit_;
  std::vector<std::string> names_;  // of the design's terms
  std::vector<std::string> classes_;
};
std::shared_ptr<const store::RowModel> read_linear(const io::SafeTensors& file, const std::string& path,
                                                   const store::RowShape& shape);

enum class LinearKind { linear, ridge, logistic, poisson };

class LinearLearner : public RowLearner {
 public:
  explicit LinearLearner(LinearKind kind) : kind_(kind) {}
  std::string name() const override;
  std::string doc() const override;
  std::vector<std::string> flags() const override { return {"--lambda", "--weight-column"}; }
  bool reads_held_out(const train::Config&) const override { return false; }
  RowData read(const RowSource& source) const override;
  train::Cost cost(const train::Config& config, const RowData& data) const override;
  std::shared_ptr<const store::RowModel> fit(const train::Config& config, const RowData& data,
                                             const std::function<bool(const Round&)>& on_round) const override;

 private:
  LinearKind kind_;
};

}  // namespace freight::tables
