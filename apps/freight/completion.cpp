// `freight completion SHELL`: a script that completes commands, flags and the values of flags. The script knows none of
// them: it asks `freight COMMAND --help all`, so that it is true of the command that is installed, whatever its
// version.
#include <cstdio>

#include "command.h"
#include "freight/base/usage.h"
#include "options.h"

namespace freight::app {
namespace {

// Reads a help text (of `--help all`). For a group: its commands and --help, at the top also --version. For a command:
// the listed values of the flag `previous`; nothing if it takes another value; else the alternatives in the usage line
// and all flags. Flags begin at fixed columns; the continuation lines of descriptions may mention flags, which are not
// read.
constexpr const char* kWords = R"awk(
/^Commands:/ { listed = 1; next }
/^$/ { listed = 0 }
listed { print $1; group = 1 }
/^Usage: / {
  if ($3 == "COMMAND") top = 1
  alternatives = $NF
}
/^(  -[A-Za-z], |      )--[a-z]/ {
  flag = $1 ~ /,$/ ? $2 : $1
  letter = $1 ~ /,$/ ? substr($1, 1, 2) : flag
  rest = $0
  sub(/^ +(-[A-Za-z], )?--[a-z0-9-]+/, "", rest)
  value = rest ~ /^ [^ ]/ ? substr(rest, 2) : ""
  sub(/ .*/, "", value)
  if ((flag == previous || letter == previous) && value != "") { wanted = value; next }
  flags[++n] = flag
}
END {
  if (wanted ~ /^[a-z0-9]+([|][a-z0-9]+)+$/) {
    count = split(wanted, values, "|")
    for (i = 1; i <= count; ++i) print values[i]
  } else if (wanted == "") {
    # What is no flag stands in the usage where there is a choice: freight completion bash|zsh|fish.
    if (alternatives ~ /^[a-z0-9]+([|][a-z0-9]+)+$/) {
      count = split(alternatives, values, "|")
      for (i = 1; i <= count; ++i) print values[i]
    }
    if (group) print "--help"
    if (top) print "--version"
    for (i = 1; i <= n; ++i) print flags[i]
  }
}
)awk";

// The command and, of a group, its own command are the words in front of the first flag, two at most.
constexpr const char* kBash = R"sh(
_freight() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} commands=() i
  for ((i = 1; i < COMP_CWORD && i < 3; ++i)); do
    case ${COMP_WORDS[i]} in -*) break ;; esac
    commands+=("${COMP_WORDS[i]}")
  done
  COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" "${commands[@]}" --help all 2> /dev/null | awk -v previous="$previous" "$_freight_words")" -- "$word"))
}
complete -o default -F _freight freight
)sh";

constexpr const char* kFish = R"sh(
function _freight_complete
  set -l words (commandline -opc)
  set -l path
  for word in $words[2..3]
    string match -q -- '-*' $word; and break
    set -a path $word
  end
  command $words[1] $path --help all 2> /dev/null | awk -v previous="$words[-1]" "$_freight_words"
end
complete -c freight -a '(_freight_complete)'
)sh";

}  // namespace

int completion_command(const Args& args) {
  std::string shell;
  Options options(
      "completion", "Prints a script that completes commands, flags and values in a shell.", "bash|zsh|fish",
      "  eval \"$(freight completion bash)\"                                  # in ~/.bashrc\n"
      "  eval \"$(freight completion zsh)\"                                   # in ~/.zshrc, behind compinit\n"
      "  freight completion fish > ~/.config/fish/completions/freight.fish\n");
  options.positional("shell", &shell, "bash, zsh or fish", true);
  if (options.parse(args) == Options::Outcome::done) return 0;

  if (shell == "bash") {
    std::printf("_freight_words='%s'\n%s", kWords, kBash);
  } else if (shell == "zsh") {
    std::printf("autoload -U +X bashcompinit && bashcompinit\n_freight_words='%s'\n%s", kWords, kBash);
  } else if (shell == "fish") {
    std::printf("set -g _freight_words '%s'\n%s", kWords, kFish);
  } else {
    refuse_name("completion", shell, {"bash", "zsh", "fish"});
  }
  return 0;
}

}  // namespace freight::app
