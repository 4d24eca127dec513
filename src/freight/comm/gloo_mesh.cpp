// Gloo's connections over TCP: each rank listens for each other one, and connects to it.
#include <chrono>

#include "freight/base/error.h"
#include "freight/comm/gloo_library_internal.h"
#include "freight/comm/mesh_internal.h"

namespace freight::comm {

namespace {

// Text of Gloo's without the file and line that it begins with.
std::string words_of_gloo(const std::string& text) {
  const size_t end = starts_with(text, "[") ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

template <class F>
auto with_words_of_gloo(const F& f) {
  try {
    return f();
  } catch (const std::exception& e) {
    fail(ErrorKind::runtime, "Gloo", words_of_gloo(e.what()));
  }
}

class GlooMessage final : public Mesh::Message {
 public:
  GlooMessage(std::unique_ptr<gloo::transport::UnboundBuffer> buffer, Mesh::Way way, int peer, uint64_t slot)
      : buffer_(std::move(buffer)), way_(way), peer_(peer), slot_(slot) {}

  void begin() override {
    with_words_of_gloo([this] {
      return way_ == Mesh::Way::send ? buffer_->send(peer_, slot_, 0, buffer_->size)
                                     : buffer_->recv(peer_, slot_, 0, buffer_->size);
    });
  }
  bool is_done_within(double seconds) override {
    const std::chrono::milliseconds most(static_cast<int64_t>(seconds * 1e3));
    return with_words_of_gloo(
        [&] { return way_ == Mesh::Way::send ? buffer_->waitSend(nullptr, most) : buffer_->waitRecv(nullptr, most); });
  }
  void wake() noexcept override {
    buffer_->abortWaitRecv();
    buffer_->abortWaitSend();
  }

 private:
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  Mesh::Way way_;
  int peer_;
  uint64_t slot_;
};

class GlooMesh final : public Mesh {
 public:
  GlooMesh(int rank, int world, double timeout) : rank_(rank), world_(world), timeout_(timeout) {}

  std::vector<std::string> make_cards(const std::string& address) override {
    device_ = gloo_device(address);
    return with_words_of_gloo([this] {
      context_ = device_->createContext(rank_, world_);
      context_->setTimeout(std::chrono::milliseconds(static_cast<int64_t>(timeout_ * 1e3)));
      std::vector<std::string> cards(static_cast<size_t>(world_));
      for (int r = 0; r < world_; ++r) {
        if (r == rank_) continue;
        const std::vector<char> bytes = context_->createPair(r)->address().bytes();
        cards[static_cast<size_t>(r)] = std::string(bytes.begin(), bytes.end());
      }
      return cards;
    });
  }
  void connect(int peer, const std::string& card) override {
    with_words_of_gloo([&] { return context_->getPair(peer)->connect(std::vector<char>(card.begin(), card.end())); });
  }
  void close() noexcept override {
    for (int r = 0; context_ && r < world_; ++r) {
      try {
        if (r != rank_) context_->getPair(r)->close();
      } catch (...) {  // it is closed already
      }
    }
  }
  std::unique_ptr<Message> message(Way way, int peer, void* at, int64_t bytes, uint64_t slot) override {
    return std::make_unique<GlooMessage>(context_->createUnboundBuffer(at, static_cast<size_t>(bytes)), way, peer,
                                         slot);
  }
  void leave() noexcept override {}  // connections close with the object, when they have sent what they hold

 private:
  int rank_, world_;
  double timeout_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
};

}  // namespace

std::unique_ptr<Mesh> gloo_mesh(int rank, int world, double timeout) {
  return std::make_unique<GlooMesh>(rank, world, timeout);
}

}  // namespace freight::comm
