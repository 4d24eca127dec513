// Gate: a process of an elastic job between hosts is met by the others there (network_membership.cpp). A thread of its
// own answers whoever knocks, while the process computes: it says who is the first rank, and lets those wait who are to
// meet this process. Messages are of one size, so that a reader needs no framing.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "freight/comm/door_internal.h"
#include "freight/comm/network_meeting.h"
#include "freight/comm/proof_internal.h"
#include "freight/comm/roster_internal.h"

namespace freight::comm {

constexpr int kMostNumbers = static_cast<int>(kMostMembers);  // of processes of such a job

struct Knock {
  std::array<char, 8> magic = kMagic;
  std::array<char, 32> version{};
  int32_t number = 0, process = 0;
  int32_t whom = 0;  // 1: the first rank is to be met, whoever that is; 0: this process, if it may be the next one
  int32_t unused = 0;
  uint64_t generation = 0;  // of the last meeting at which it was; 0: of none
  uint64_t identity = 0;    // of program and data
  std::array<char, 64> host{};
  Nonce nonce{};
  Proof proof{};
};
constexpr const char *kKnockSays = "knock", *kGateSays = "gate";

struct GateWord {
  enum class Kind : int32_t {
    waits = 1,  // it is heard, and is to wait; comes once a second
    none = 2,   // this process does not know yet who is to be met
    other = 3,  // `first` is to be met
    meets = 4,  // the meeting is now: with `members`, by the order of their ranks, at `port` of the first one's host
    fails = 5,  // it is not let in: `error` and `text`
    ends = 6,   // the job is over, of which `text` says why
  } kind = Kind::waits;
  int32_t first = -1, count = 0, port = 0, error = 0, unused = 0;
  uint64_t generation = 0;
  std::array<int32_t, kMostNumbers> members{};
  std::array<char, 512> text{};
  Proof proof{};
};

class Gate {
 public:
  // Somebody who has knocked, and waits. `rank` is its number.
  struct Guest {
    Descriptor socket;
    std::string inbox = {};
    Nonce challenge{};
    std::chrono::steady_clock::time_point came = std::chrono::steady_clock::now();
    int rank = -1;  // -1: has not said yet
    Knock said{};
  };
  // Listens as `where` says, from now on. Throws Error(usage) where the port is in use.
  Gate(const NetworkPlan& where, const std::string& token, int number);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // The last meeting at which this process was, and the number of the one to be met; -1: it is not known.
  void stand(uint64_t generation, int first);
  // Nobody is let in any more: by this process, or in the whole job.
  enum class Over : uint8_t { process, job };
  void close(const std::string& why, Over what = Over::process);
  // The number of processes that were told so.
  int refused() const { return refused_.load(); }
  // One for each number that waits.
  std::vector<Knock> waiting();
  // True where somebody waits who was not at the last meeting.
  bool newcomer_waits() const { return newcomers_.load(std::memory_order_relaxed) > 0; }
  // Hands over those who wait.
  std::vector<Guest> take();
  bool tell(const Guest& guest, GateWord word) const;

 private:
  void listen(const NetworkPlan& where);
  void watch();
  void let_in();
  void hear(Guest& guest);
  void receive(Guest& guest);
  void remind();
  bool lets_in(const Knock& knock) const;
  GateWord answer_to(const Knock& knock) const;
  void count_newcomers();

  const std::string token_;
  const int number_;
  std::mutex guard_;
  Door door_;
  std::vector<Guest> guests_;
  uint64_t generation_ = 0;
  int first_ = -1;
  std::string closed_;
  Over over_ = Over::process;
  std::atomic<int> refused_ = 0;
  std::atomic<int> newcomers_ = 0;
  std::atomic<bool> stop_ = false;
  std::chrono::steady_clock::time_point reminded_ = std::chrono::steady_clock::now();
  Descriptor wake_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace freight::comm
