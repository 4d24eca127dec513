// The plans of whole training steps, held against files: a change of fusion, order, aliasing or memory shows as a
// difference of text. FREIGHT_UPDATE_GOLDEN=1 writes the files anew; read the difference before you commit it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "freight/models/models.h"
#include "freight/ops/ops.h"
#include "freight/optim/optimizer.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"
#include "tests/support/folders.h"
#include "tests/support/fusing_backend.h"

namespace freight::test {
namespace {

class GoldenPlan : public testing::TestWithParam<std::string> {};

TEST_P(GoldenPlan, IsAsCommitted) {
  models::Model model = models::create(GetParam());
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.01, .momentum = 0.9});
  auto step = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = cross_entropy((*model.net)(x), y);
        sgd.step(loss);
        return loss;
      },
      CompileOptions{.backend = fusing_backend(), .deterministic = true});
  const std::string text = print(*step.plan(model.batch_type(8), Type{DType::i64, {8}}));
  const std::string path = source_dir() + "/tests/train/golden/" + GetParam() + "_b8.txt";
  if (std::getenv("FREIGHT_UPDATE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << path << " differs; FREIGHT_UPDATE_GOLDEN=1 writes it again";
}

INSTANTIATE_TEST_SUITE_P(Nets, GoldenPlan, testing::Values("mlp", "lenet", "convnet"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace freight::test
