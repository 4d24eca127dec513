// The saved model of --model mlp: a fitted network that predicts rows.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/store/row_model.h"
#include "freight/tables/mlp_columns.h"
#include "freight/tables/mlp_net.h"

namespace freight::tables {

class MlpModel : public store::RowModel {
 public:
  // Makes the network on the CPU, where models for tables predict, whatever the process's device. Throws
  // Error(checkpoint) that names `source` if the values do not fit such a network.
  MlpModel(MlpColumns columns, int64_t bins, int64_t classes, const std::vector<nn::NamedArray>& state,
           const std::string& source);
  int64_t outputs() const override { return classes_ > 0 ? classes_ : 1; }
  bool predicts_classes() const override { return classes_ > 0; }
  // Runs blocks of one size by one plan, so that a row's prediction does not depend on the other rows.
  Array run(const Array& rows) const override;
  int64_t parameters() const override { return net_->parameter_count(); }
  std::vector<std::string> lines() const override;
  void write(io::SafeTensors& file) const override;

  int64_t epochs = 0, kept = 0;  // the number of trained epochs, and the epoch whose weights were kept

 private:
  MlpColumns columns_;
  int64_t classes_;
  std::shared_ptr<MlpNet> net_;
  std::function<Array(const Array&)> block_;
};
std::shared_ptr<const store::RowModel> read_mlp(const io::SafeTensors& file, const std::string& path,
                                                const store::RowShape& shape);

// The current values of a network, in the form that MlpModel takes.
std::vector<nn::NamedArray> mlp_state(const nn::Module& net);

}  // namespace freight::tables
