// Weights of classes: as they are asked for, and as the loss of a step takes them.
#include "freight/train/class_weights.h"

#include <gtest/gtest.h>

#include "freight/io/file.h"
#include "freight/train/config.h"
#include "tests/support/files.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::TemporaryDir;

const ClassCounts kMail{{"ham", "spam"}, {90, 10}};

TEST(ClassWeights, BalancedOnesGiveAllClassesTheSameTotal) {
  EXPECT_TRUE(class_weights("none", kMail).empty());
  const std::vector<double> weights = class_weights("balanced", kMail);
  EXPECT_DOUBLE_EQ(weights[0] * 90, weights[1] * 10);
  EXPECT_DOUBLE_EQ(weights[0] * 90 + weights[1] * 10, 100);
  EXPECT_EQ(class_weights("balanced", {{"a", "b"}, {4, 0}})[1], 1) << "a class without samples has a usual weight";
}

TEST(ClassWeights, ThoseOfAFileBecomePartOfTheConfiguration) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "w.json", std::string_view(R"({"spam": 6, "ham": 2})"));
  Config c;
  c.class_weight = dir / "w.json";
  settle_class_weight(c);
  EXPECT_EQ(c.class_weight, R"({"spam":6,"ham":2})");
  EXPECT_EQ(class_weights(c.class_weight, kMail), (std::vector<double>{2, 6}));
  const std::vector<double> scaled = scaled_class_weights(c.class_weight, kMail);
  EXPECT_DOUBLE_EQ(scaled[0] * 90 + scaled[1] * 10, 100);
  EXPECT_DOUBLE_EQ(scaled[1] / scaled[0], 3);
}

TEST(ClassWeights, NonsenseIsRefusedByItsFlag) {
  const auto refused = [](const std::string& setting, const std::vector<std::string>& parts) {
    expect_error(ErrorKind::usage, parts, [&] { class_weights(setting, kMail); });
  };
  refused(R"({"ham": 1})", {"--class-weight", "spam"});
  refused(R"({"ham": 1, "spam": 2, "span": 3})", {"--class-weight", "span", "did you mean spam"});
  refused(R"({"ham": -1, "spam": 2})", {"--class-weight", "ham", "at least 0", "-1"});
  refused(R"({"ham": 0, "spam": 0})", {"--class-weight", "all weights are 0"});
  refused(R"({"ham": "much", "spam": 2})", {"--class-weight", "ham", "much"});
  Config c;
  c.class_weight = "balancd";
  expect_error(ErrorKind::usage, {"--class-weight", "balancd", "did you mean balanced"},
               [&] { settle_class_weight(c); });
}

}  // namespace
}  // namespace freight::train
