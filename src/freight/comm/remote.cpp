// See remote_internal.h.
#include <filesystem>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/comm/remote_internal.h"

namespace freight::comm {

namespace {

// The line that the other host's shell runs. The rank takes the shell's place, so that the shell's number is the
// rank's; a second shell reads what the launcher says. It looks at the name of the job before it kills, since the
// number of a process that ended may be another's by then. A request to save (USR1) is ignored until the rank says what
// it does, as on the launcher's host. One line, since not every user's shell reads several between
// quotes.
std::string script(const RemoteRank& rank) {
  std::string words;
  for (const std::string& s : rank.settings) words += " " + shell_word(s);
  for (const std::string& w : rank.command) words += " " + shell_word(w);
  const std::string alive =
      cat("tr '\\0' '\\n' </proc/$rank/environ | grep -qx ", shell_word("FREIGHT_JOB=" + rank.job));
  return cat("cd ", shell_word(std::filesystem::current_path().string()),
             " || exit 1; IFS= read -r FREIGHT_TOKEN || exit 1; export FREIGHT_TOKEN; exec 3<&0; rank=$$; ",
             "(while IFS= read -r signal <&3; do kill -s \"$signal\" $rank; done; ", alive,
             " && kill -s TERM $rank && sleep ", rank.grace, " && ", alive,
             " && kill -s KILL $rank) >/dev/null 2>&1 & trap '' USR1; exec env", words, " </dev/null 3<&-");
}

}  // namespace

std::vector<std::string> remote_command(const RemoteRank& rank) {
  if (rank.host.empty() || rank.host[0] == '-') {
    fail(ErrorKind::usage, "--hosts", "got '", excerpt(rank.host), "', need names or addresses of hosts");
  }
  std::vector<std::string> words;
  for (const std::string& word : split(env::get("FREIGHT_SSH", "ssh"), ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  // Nobody is there to type a password or to trust a new key.
  if (words.size() == 1 && words[0] == "ssh")
    words.insert(words.end(), {"-o", "BatchMode=yes", "-o", "ConnectTimeout=10"});
  words.push_back(rank.host);
  words.push_back("exec sh -c " + shell_word(script(rank)));
  return words;
}

}  // namespace freight::comm
