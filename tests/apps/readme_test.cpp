// The README's program is the example that the installed-package test compiles and runs.
#include <gtest/gtest.h>

#include "run_command.h"

namespace freight::test {
namespace {

TEST(Readme, ShowsTheExampleThatIsCompiled) {
  const std::string readme = read_file(FREIGHT_SOURCE_DIR "/README.md");
  const std::string example = read_file(FREIGHT_SOURCE_DIR "/examples/train_mlp.cpp");
  ASSERT_FALSE(example.empty());
  EXPECT_NE(readme.find("```cpp\n" + example + "```"), std::string::npos)
      << "copy examples/train_mlp.cpp into README.md";
}

}  // namespace
}  // namespace freight::test
