// Acceptor: the listening end of a rendezvous on one host or over a network. Other programs may connect to it, too:
// more than this process can have files open, and some that never identify themselves.
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
#include "freight/comm/descriptor_internal.h"

namespace freight::comm {

class Acceptor {
 public:
  // At most this many connections are kept that have not sent their rank yet.
  static constexpr size_t kMostUnidentified = 64;
  // A rank greets as soon as it is connected. A connection that has not greeted by then is closed if others wait for
  // its place.
  static constexpr double kGraceSeconds = 0.25;

  void open(Descriptor listener) { listener_ = std::move(listener); }
  void close() { listener_ = Descriptor(); }
  int listener() const { return listener_.get(); }

  // The entry to poll. While there is no room for another connection the listener is not polled, since the connections
  // that wait in its queue would end every poll at once.
  pollfd entry() const { return {.fd = rest_left() > 0 ? -1 : listener_.get(), .events = POLLIN, .revents = 0}; }
  // The milliseconds of a poll that must take at most `seconds`.
  int patience(double seconds) const {
    const double most = rest_left() > 0 ? rest_left() : 3600;
    return static_cast<int>(std::min(seconds, most) * 1e3) + 1;
  }

  // Accepts a waiting connection; empty if there is none, or no room for it. `joining` are structs with the members
  // `socket`, `rank` (-1 while unidentified) and `connected_at`, in the order in which they connected.
  template <class Joining>
  Descriptor accept_connection(std::vector<Joining>& joining, int flags) {
    const auto is_unidentified = [](const Joining& g) { return g.rank < 0; };
    const auto unidentified = std::count_if(joining.begin(), joining.end(), is_unidentified);
    if (static_cast<size_t>(unidentified) < kMostUnidentified) {
      Descriptor accepted(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | flags));
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (accepted.get() >= 0 || !full) return accepted;
      out_of_files_ = errno == EMFILE;
    }
    const auto first = std::find_if(joining.begin(), joining.end(), is_unidentified);
    if (first != joining.end() && seconds_since(first->connected_at) > kGraceSeconds) {
      joining.erase(first);
    } else {
      rest_from_ = Clock::now();
    }
    return Descriptor();
  }

  // Explains a limit that kept a connection out: "; this process has 256 files open, and may open no more (ulimit -n)".
  // "" if there was none.
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
