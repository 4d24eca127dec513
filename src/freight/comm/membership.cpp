// See membership.h.
#include "freight/comm/membership.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <vector>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/comm/membership_internal.h"

namespace freight::comm {

void refuse_inherited(const char* variable, const std::string& text) {
  fail(ErrorKind::usage, variable, "got '", excerpt(text), "', need what freight train --elastic sets: ", "unset it");
}

void read_descriptors(const char* variable, const std::string& text, int* to, size_t count) {
  const std::vector<std::string> words = split(text, ',');
  bool sound = words.size() == count;
  for (size_t i = 0; sound && i < count; ++i) {
    const std::string& w = words[i];
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), to[i]);
    sound = error == std::errc() && end == w.data() + w.size() && ::fcntl(to[i], F_GETFD) >= 0;
  }
  if (!sound) refuse_inherited(variable, text);
  for (size_t i = 0; i < count; ++i) ::fcntl(to[i], F_SETFD, FD_CLOEXEC);
}

std::unique_ptr<Membership> Membership::of_process(const Launch& launch, const JobOptions& options) {
  const std::string text = env::get("FREIGHT_ELASTIC");
  if (text.empty() || launch.source != "freight") return nullptr;
  if (const std::string terminal = env::get("FREIGHT_TERMINAL"); !terminal.empty()) {
    descriptors_in<2>("FREIGHT_TERMINAL", terminal);
  }
  return starts_with(text, kDoors) ? network_membership(launch, options, text) : roster_membership(launch, text);
}

void Membership::take_terminal() {
  const std::string terminal = env::get("FREIGHT_TERMINAL");
  if (terminal.empty()) return;  // another host's
  const auto [out, err] = descriptors_in<2>("FREIGHT_TERMINAL", terminal);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
}

}  // namespace freight::comm
