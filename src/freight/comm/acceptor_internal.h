// Acceptor: the listening end of a rendezvous, where strangers may come beside the ranks: more of them than this
// process can have files open, and some that never say who they are. Both meetings, of one host and over a network, use
// it.
#pragma once
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/clock.h"
#include "freight/base/strings.h"
#include "freight/comm/process_internal.h"

namespace freight::comm {

class Acceptor {
 public:
  // Limit of joining processes that have not yet sent their rank.
  static constexpr size_t kMostStrangers = 64;
  // A rank greets at once. Whoever has not by then is sent away when others wait and there is no room for them.
  static constexpr double kGraceSeconds = 0.25;

  void open(Descriptor listener) { listener_ = std::move(listener); }
  void close() { listener_ = Descriptor(); }
  int listener() const { return listener_.get(); }

  // Poll is to wait for this. While there is no room, those who wait outside would end every wait at once.
  pollfd entry() const { return {.fd = rest_left() > 0 ? -1 : listener_.get(), .events = POLLIN, .revents = 0}; }
  // Milliseconds that poll may wait, of `seconds`.
  int patience(double seconds) const {
    const double most = rest_left() > 0 ? rest_left() : 3600;
    return static_cast<int>(std::min(seconds, most) * 1e3) + 1;
  }

  // One of those who wait outside, or an empty descriptor. `joining` has structs with `socket`, `rank` (-1 of
  // strangers) and `came`; in the order in which they came.
  template <class Joining>
  Descriptor let_in(std::vector<Joining>& joining, int flags) {
    const auto is_stranger = [](const Joining& g) { return g.rank < 0; };
    const auto strangers = std::count_if(joining.begin(), joining.end(), is_stranger);
    if (static_cast<size_t>(strangers) < kMostStrangers) {
      Descriptor came(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | flags));
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (came.get() >= 0 || !full) return came;
      out_of_files_ = errno == EMFILE;
    }
    const auto first = std::find_if(joining.begin(), joining.end(), is_stranger);
    if (first != joining.end() && seconds_since(first->came) > kGraceSeconds) {
      joining.erase(first);
    } else {
      rest_from_ = Clock::now();
    }
    return Descriptor();
  }

  // "; this process has 256 files open, and may open no more (ulimit -n)", where that kept somebody out.
  std::string shortage() const {
    rlimit most{};
    if (!out_of_files_ || ::getrlimit(RLIMIT_NOFILE, &most) != 0) return "";
    return cat("; this process has ", static_cast<int64_t>(most.rlim_cur),
               " files open, and may open no more (ulimit -n)");
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kRestSeconds = 0.05;
  double rest_left() const { return kRestSeconds - seconds_since(rest_from_); }

  Descriptor listener_;
  Clock::time_point rest_from_ = Clock::now() - std::chrono::hours(1);
  bool out_of_files_ = false;
};

}  // namespace freight::comm
