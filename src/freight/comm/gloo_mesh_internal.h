// GlooMesh: connections between each two ranks of a job, by Gloo over TCP. network_comm.h makes collectives of them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gloo::transport {
class Context;
class Device;
class UnboundBuffer;
}  // namespace gloo::transport

namespace freight::comm {

// Functions throw std::exception with Gloo's own words where a connection breaks.
class GlooMesh {
 public:
  enum class Direction : uint8_t { send, receive };

  // A message between this rank and another. It is under way from begin() on; once it is destroyed, its memory is
  // neither read nor written any more.
  class Message {
   public:
    Message(std::unique_ptr<gloo::transport::UnboundBuffer> buffer, Direction direction, int peer, uint64_t slot);
    ~Message();
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;

    void begin();
    // Waits until it is sent or received. False where that takes longer than `seconds`, or wake() was called.
    bool is_done_within(double seconds);
    void wake() noexcept;  // from any thread

   private:
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
    Direction direction_;
    int peer_;
    uint64_t slot_;
  };

  GlooMesh(int rank, int world, double timeout);

  // MakeEndpoints of network_rendezvous.h. Called once, before all others.
  std::vector<std::string> make_endpoints(const std::string& address);
  // Listens for that rank, and connects to its endpoint.
  void connect(int peer, const std::string& endpoint);
  // Ends all connections at once, after an error. From any thread. Without it the destructor ends them when they have
  // sent what they contain.
  void close() noexcept;
  // Both ends use the same `slot`, and no other message that is under way between the two in that direction has it.
  // The receiver expects as many bytes as are sent, or more.
  std::unique_ptr<Message> message(Direction direction, int peer, void* at, int64_t bytes, uint64_t slot);

 private:
  int rank_, world_;
  double timeout_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
};

}  // namespace freight::comm
