// `freight completion`: its scripts, asked in their shells as a user's keys would.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "freight/base/strings.h"
#include "run_command.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

struct Typed {
  const char* line;  // up to the cursor
  const char* word;  // what its last word becomes
};
const Typed kTyped[] = {
    {"freight pla", "plan"},
    {"freight bench inf", "infer"},
    {"freight train --prec", "--precision"},
    {"freight profile --model lenet --precision b", "bf16"},
    {"freight bench step --model lenet --recompute au", "auto"},
    {"freight devices --mea", "--measure"},
    {"freight predict -b 3 --top", "--top-k"},
    {"freight completion z", "zsh"},
    {"freight --ver", "--version"},
    {"freight models --he", "--help"},
};

bool has_shell(const std::string& shell) { return std::system(cat("command -v ", shell, " > /dev/null").c_str()) == 0; }

// What a shell prints when it runs a script that knows the command and its completion.
std::string printed(const std::string& shell, const std::string& script) {
  const std::string file = scratch_dir() + "/script";
  write_file(file, script);
  const std::string command = cat("PATH=", binary_dir(), "/bin:$PATH ", shell, " ", file, " 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  std::array<char, 4096> block{};
  for (size_t n; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;) out.append(block.data(), n);
  pclose(pipe);
  return out;
}

TEST(Completion, BashCompletesCommandsFlagsAndValues) {
  if (!has_shell("bash")) GTEST_SKIP() << "there is no bash";
  for (const Typed& t : kTyped) {
    const std::string script = cat("eval \"$(freight completion bash)\"\nCOMP_WORDS=(", t.line,
                                   ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_freight\necho \"${COMPREPLY[@]}\"\n");
    EXPECT_EQ(printed("bash", script), cat(t.word, "\n")) << t.line;
  }
}

TEST(Completion, BashOffersFilesWhereAFlagTakesOne) {
  if (!has_shell("bash")) GTEST_SKIP() << "there is no bash";
  for (const char* flag : {"--config", "--output-dir", "-o"}) {
    const std::string script = cat("eval \"$(freight completion bash)\"\nCOMP_WORDS=(freight train ", flag,
                                   " '')\nCOMP_CWORD=3\n_freight\necho \"${#COMPREPLY[@]}\"; complete -p freight\n");
    EXPECT_EQ(printed("bash", script), "0\ncomplete -o default -F _freight freight\n") << flag;
  }
}

TEST(Completion, FishCompletesTheSame) {
  if (!has_shell("fish")) GTEST_SKIP() << "there is no fish";
  for (const Typed& t : kTyped) {
    const std::string offered =
        printed("fish -N", cat("freight completion fish | source\ncomplete -C '", t.line, "'\n"));
    EXPECT_NE(cat("\n", offered).find(cat("\n", t.word, "\n")), std::string::npos) << t.line << "\n" << offered;
  }
}

// bashcompinit leaves it to zsh to choose by what was typed.
TEST(Completion, ZshIsOfferedTheSame) {
  if (!has_shell("zsh")) GTEST_SKIP() << "there is no zsh";
  for (const Typed& t : kTyped) {
    const std::string script =
        cat("compdef() { : }\neval \"$(freight completion zsh)\"\ntry() { emulate -L sh; setopt kshglob noshglob "
            "braceexpand; COMP_WORDS=(\"$@\"); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); _freight; printf '%s\\n' "
            "\"${COMPREPLY[@]}\"; }\ntry ",
            t.line, "\n");
    EXPECT_NE(cat("\n", printed("zsh -f", script)).find(cat("\n", t.word, "\n")), std::string::npos) << t.line;
  }
}

TEST(Completion, AnotherShellIsRefusedByName) {
  const Ran r = run_freight({"completion", "tcsh"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("expected one of bash, zsh, fish, got tcsh"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace freight::test
