// The README's program is the example that the installed-package test compiles and runs.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "run_command.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

TEST(Readme, ShowsTheExampleThatIsCompiled) {
  const std::string readme = read_file(source_dir() + "/README.md");
  const std::string example = read_file(source_dir() + "/examples/train_mlp.cpp");
  ASSERT_FALSE(example.empty());
  EXPECT_NE(readme.find("```cpp\n" + example + "```"), std::string::npos)
      << "copy examples/train_mlp.cpp into README.md";
}

// Each line "./freight COMMAND ..." names a command and flags that its help knows.
TEST(Readme, ShowsCommandsAndFlagsThatThereAre) {
  std::istringstream readme(read_file(source_dir() + "/README.md"));
  std::set<std::string> commands;
  for (std::string line; std::getline(readme, line);) {
    std::istringstream words(line);
    std::string word, command;
    if (line.rfind("./freight ", 0) != 0 || !(words >> word >> command)) continue;
    Ran help = run_freight({command, "--help", "all"});
    EXPECT_EQ(help.code, 0) << line;
    commands.insert(command);
    if (help.out.find(command + " COMMAND [options]") != std::string::npos && words >> word) {
      help = run_freight({command, word, "--help", "all"});
      EXPECT_EQ(help.code, 0) << line;
    }
    while (words >> word && word[0] != '#') {
      if (word.rfind("--", 0) == 0) {
        EXPECT_NE(help.out.find(word), std::string::npos) << word << " in: " << line;
      }
    }
  }
  for (const char* shown : {"train", "eval", "predict", "serve", "export", "verify", "report", "plan", "generate",
                            "profile", "models", "data"}) {
    EXPECT_TRUE(commands.count(shown)) << shown;
  }
}

}  // namespace
}  // namespace freight::test
