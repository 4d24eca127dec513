// The baseline: it reads no column and always predicts the class frequencies or the mean of the training rows. Any
// improvement over it was learned from the columns.
#pragma once
#include <memory>
#include <string>

#include "freight/tables/row_learner.h"

namespace freight::tables {

class Baseline : public store::RowModel {
 public:
  Baseline(Array prediction, bool classes) : prediction_(std::move(prediction)), classes_(classes) {}
  int64_t outputs() const override { return prediction_.numel(); }
  bool predicts_classes() const override { return classes_; }
  Array run(const Array& rows) const override;
  int64_t parameters() const override { return prediction_.numel(); }
  std::vector<std::string> lines() const override;
  void write(io::SafeTensors& file) const override;

 private:
  Array prediction_;  // f32 (outputs)
  bool classes_;
};
std::shared_ptr<const store::RowModel> read_baseline(const io::SafeTensors& file, const std::string& path,
                                                     const store::RowShape& shape);

class BaselineLearner : public RowLearner {
 public:
  std::string name() const override { return "baseline"; }
  std::string doc() const override { return "class frequencies, or the mean: a baseline to beat"; }
  bool reads_held_out(const train::Config&) const override { return false; }
  std::vector<std::string> flags() const override { return {"--weight-column"}; }
  RowData read(const RowSource& source) const override;
  train::Cost cost(const train::Config& config, const RowData& data) const override;
  std::shared_ptr<const store::RowModel> fit(const train::Config& config, const RowData& data,
                                             const std::function<bool(const Round&)>& on_round) const override;
};

}  // namespace freight::tables
