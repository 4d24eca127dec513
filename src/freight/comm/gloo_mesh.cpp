// See gloo_mesh_internal.h.
#include "freight/comm/gloo_mesh_internal.h"

#include <chrono>
#include <utility>

#include "freight/base/error.h"
#include "freight/comm/gloo_library_internal.h"

namespace freight::comm {

namespace {

// An error text of Gloo without the file and line at its beginning.
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

}  // namespace

GlooMesh::Message::Message(std::unique_ptr<gloo::transport::UnboundBuffer> buffer, Direction direction, int peer,
                           uint64_t slot)
    : buffer_(std::move(buffer)), direction_(direction), peer_(peer), slot_(slot) {}

GlooMesh::Message::~Message() = default;

void GlooMesh::Message::begin() {
  with_words_of_gloo([this] {
    return direction_ == Direction::send ? buffer_->send(peer_, slot_, 0, buffer_->size)
                                         : buffer_->recv(peer_, slot_, 0, buffer_->size);
  });
}

bool GlooMesh::Message::is_done_within(double seconds) {
  const std::chrono::milliseconds most(static_cast<int64_t>(seconds * 1e3));
  return with_words_of_gloo([&] {
    return direction_ == Direction::send ? buffer_->waitSend(nullptr, most) : buffer_->waitRecv(nullptr, most);
  });
}

void GlooMesh::Message::wake() noexcept {
  buffer_->abortWaitRecv();
  buffer_->abortWaitSend();
}

GlooMesh::GlooMesh(int rank, int world, double timeout) : rank_(rank), world_(world), timeout_(timeout) {}

std::vector<std::string> GlooMesh::make_endpoints(const std::string& address) {
  device_ = gloo_device(address);
  return with_words_of_gloo([this] {
    context_ = device_->createContext(rank_, world_);
    context_->setTimeout(std::chrono::milliseconds(static_cast<int64_t>(timeout_ * 1e3)));
    std::vector<std::string> endpoints(static_cast<size_t>(world_));
    for (int r = 0; r < world_; ++r) {
      if (r == rank_) continue;
      const std::vector<char> bytes = context_->createPair(r)->address().bytes();
      endpoints[static_cast<size_t>(r)] = std::string(bytes.begin(), bytes.end());
    }
    return endpoints;
  });
}

void GlooMesh::connect(int peer, const std::string& endpoint) {
  with_words_of_gloo(
      [&] { return context_->getPair(peer)->connect(std::vector<char>(endpoint.begin(), endpoint.end())); });
}

void GlooMesh::close() noexcept {
  for (int r = 0; context_ && r < world_; ++r) {
    try {
      if (r != rank_) context_->getPair(r)->close();
    } catch (...) {  // it is closed already
    }
  }
}

std::unique_ptr<GlooMesh::Message> GlooMesh::message(Direction direction, int peer, void* at, int64_t bytes,
                                                     uint64_t slot) {
  return std::make_unique<Message>(context_->createUnboundBuffer(at, static_cast<size_t>(bytes)), direction, peer,
                                   slot);
}

}  // namespace freight::comm
