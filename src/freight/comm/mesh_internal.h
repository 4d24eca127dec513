// Moves bytes between each two ranks of a job: all that network_comm.h needs of a library.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "freight/comm/comm.h"
#include "freight/comm/network_meeting.h"

namespace freight::comm {

class Mesh {
 public:
  enum class Way : uint8_t { send, receive };

  // One on its way between this rank and another, from its begin() on. Its memory is left alone once it is destroyed.
  class Message {
   public:
    virtual ~Message() = default;
    virtual void begin() = 0;
    // Waits until it is sent, or there. False where it is not after `seconds`, or wake() was called.
    virtual bool is_done_within(double seconds) = 0;
    virtual void wake() noexcept = 0;  // from any thread
  };

  virtual ~Mesh() = default;
  // See network_meeting.h. Called once, before all others.
  virtual std::vector<std::string> make_cards(const std::string& address) = 0;
  virtual void connect(int peer, const std::string& card) = 0;
  // Ends all connections at once, after a fault. From any thread.
  virtual void close() noexcept = 0;
  // `slot` is the same number at both ends, and no other message's between the two in that direction that is under way.
  // The receiver awaits as many bytes as are sent, or more.
  virtual std::unique_ptr<Message> message(Way way, int peer, void* at, int64_t bytes, uint64_t slot) = 0;
  // All ranks leave in good order, each having received all that was sent to it. Called once, at the end.
  virtual void leave() noexcept = 0;
};

// These throw std::exception where a connection breaks, with the library's own words.
std::unique_ptr<Mesh> gloo_mesh(int rank, int world, double timeout);

// Meets the others and sums with them over that mesh (network_comm.h).
std::unique_ptr<Comm> join_network(const NetworkPlan& plan, std::unique_ptr<Mesh> mesh);

}  // namespace freight::comm
