// A fitted net of --model mlp as the stored model, and the way in which it answers rows.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/store/row_model.h"
#include "freight/tables/mlp_columns.h"
#include "freight/tables/mlp_net.h"

namespace freight::tables {

// Values are predicted in the units of the column: output of the network, times scale, plus mean.
struct MlpTarget {
  int64_t classes = 0;  // 0: values
  double mean = 0, scale = 1;

  int64_t outputs() const { return classes > 0 ? classes : 1; }
};

// Answers rows in blocks of one size by one plan, so that a row's answer has the same bits whatever rows beside it. The
// net and the columns must outlive it. Any number of threads may ask.
class MlpAnswers {
 public:
  enum class Weights { frozen, changing };
  MlpAnswers(MlpNet& net, const MlpColumns& columns, const MlpTarget& target, Weights weights);
  Array operator()(const Array& rows) const;  // f64 (N, columns) -> f32 (N, outputs)

 private:
  const MlpColumns& columns_;
  MlpTarget target_;
  std::function<Array(const MlpColumns::Encoded&)> block_;
};

// The file says this besides the weights.
struct MlpMade {
  MlpSizes sizes;
  MlpTarget target;
  int64_t epochs = 0, kept = 0;  // fitted, and the one whose weights these are
};

class MlpModel : public store::RowModel {
 public:
  // `weights` by the names of the net's parameters; they are copied.
  MlpModel(MlpColumns columns, const MlpMade& made, const std::vector<nn::NamedArray>& weights);
  int64_t outputs() const override { return made_.target.outputs(); }
  bool tells_classes() const override { return made_.target.classes > 0; }
  Array run(const Array& rows) const override { return answers_(rows); }
  int64_t parameters() const override { return net_->parameter_count(); }
  std::vector<std::string> lines() const override;
  void write(io::SafeTensors& file) const override;

 private:
  MlpColumns columns_;
  MlpMade made_;
  std::unique_ptr<MlpNet> net_;
  MlpAnswers answers_;
};
std::shared_ptr<const store::RowModel> read_mlp(const io::SafeTensors& file, const std::string& path,
                                                const store::RowShape& shape);

// A net on the CPU, where models of rows answer, whatever device the process is set to use.
std::unique_ptr<MlpNet> make_mlp(const MlpColumns& columns, const MlpMade& made);
// The weights that training changes and files hold, by the names of the net's state_dict.
std::vector<nn::NamedVariable> mlp_weights(const MlpNet& net);

}  // namespace freight::tables
