// Where a request's head and body end, by RFC 9112 to the letter. A server and a proxy before it that read the same
// bytes differently let one request hide in another; so what the RFC lets a server be lenient about is refused here.
// Knows nothing of sockets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace freight::serve {

// A head as it was sent: values without the white space around them, not decoded.
struct Head {
  std::string version;  // "HTTP/1.1"
  std::vector<std::pair<std::string, std::string>> fields;
  bool chunked = false;
  // Tells the fault in it, or "": the connection must then be closed, since nobody can tell where the next request
  // begins.
  std::string fault;
};
// `text` ends with the empty line.
Head parse_head(std::string_view text);

// Decodes a chunked body byte by byte (section 7.1). Chunk extensions and trailers are read and dropped.
class ChunkDecoder {
 public:
  enum class State : uint8_t { size, extension, size_end, data, data_return, data_end, trailer, done, broken };

  State state() const { return state_; }
  // Bytes of the running chunk that are still to come; above 0 exactly in state data.
  uint64_t left() const { return left_; }
  // In state data: that many bytes were taken.
  void taken(uint64_t bytes);
  // In every other state but done and broken: the next byte.
  void step(char c);

 private:
  static constexpr size_t kMostExtension = 256, kMostTrailer = 8192;
  void trailer(char c);
  State state_ = State::size;
  uint64_t left_ = 0;
  int digits_ = 0;
  bool gap_ = false;  // white space was met behind a size: only an extension may follow
  size_t extra_ = 0;  // bytes of the extension or the trailers so far
  std::string line_;  // of the trailers
};

// True of a Host, or host of an Origin, that may ask this server: an address in numbers, localhost, the name that the
// server was told to listen on, or one of `allowed` ("*": any). A page of a stranger's site reaches a server on this
// machine by a name of its own that it lets point here; no such name is among these.
bool host_allowed(std::string_view host, std::string_view listening, const std::vector<std::string>& allowed);
// "example.org" of "example.org:8000" and of "https://example.org:8000"; "" where it is neither.
std::string host_of(std::string_view authority_or_origin);

}  // namespace freight::serve
