// A fitted network of --model mlp as the stored model.
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
  // On the CPU, where models of rows predict, whatever device the process is set to use. Throws
  // Error(checkpoint) naming `source` where the values are not those of such a network.
  MlpModel(MlpColumns columns, int64_t bins, int64_t classes, const std::vector<nn::NamedArray>& state,
           const std::string& source);
  int64_t outputs() const override { return classes_ > 0 ? classes_ : 1; }
  bool tells_classes() const override { return classes_ > 0; }
  // In blocks of one size by one plan, so that a row's prediction has the same bits whatever rows beside it.
  Array run(const Array& rows) const override;
  int64_t parameters() const override { return net_->parameter_count(); }
  std::vector<std::string> lines() const override;
  void write(io::SafeTensors& file) const override;

  int64_t epochs = 0, kept = 0;  // that were trained, and the one whose weights these are

 private:
  MlpColumns columns_;
  int64_t classes_;
  std::shared_ptr<MlpNet> net_;
  std::function<Array(const Array&)> block_;
};
std::shared_ptr<const store::RowModel> read_mlp(const io::SafeTensors& file, const std::string& path,
                                                const store::RowShape& shape);

// The values that a network has now, as MlpModel takes them.
std::vector<nn::NamedArray> mlp_state(const nn::Module& net);

}  // namespace freight::tables
