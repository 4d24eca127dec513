// Finds the end of a request's head and body, strictly by RFC 9112. If a server and a proxy in front of it read the
// same bytes differently, one request can be hidden in another; so everything about which the RFC lets a server be
// lenient is refused here. Knows nothing of sockets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace freight::serve {

// A head as it was sent: values are not decoded, only the white space around them is removed.
struct Head {
  std::string version;  // "HTTP/1.1"
  std::vector<std::pair<std::string, std::string>> fields;
  bool chunked = false;
  // The error in the head, or "". With an error the connection must be closed, since the beginning of the next request
  // is unknown.
  std::string fault;
};
// Parses a head; `text` ends with the empty line.
Head parse_head(std::string_view text);

// Decodes a chunked body byte by byte (section 7.1). Chunk extensions and trailers are skipped.
class ChunkDecoder {
 public:
  enum class State : uint8_t { size, extension, size_end, data, data_return, data_end, trailer, done, broken };

  State state() const { return state_; }
  // The bytes of the current chunk that are still to come; above 0 exactly in state data.
  uint64_t left() const { return left_; }
  // Tells, in state data, that this many bytes were read.
  void taken(uint64_t bytes);
  // Takes the next byte, in every state but data, done and broken.
  void step(char c);

 private:
  static constexpr size_t kMostExtension = 256, kMostTrailer = 8192;
  void trailer(char c);
  State state_ = State::size;
  uint64_t left_ = 0;
  int digits_ = 0;
  bool gap_ = false;  // white space followed a size, so only an extension may follow
  size_t extra_ = 0;  // bytes of the extension or the trailers so far
  std::string line_;  // a line of the trailers
};

// True for a Host, or host of an Origin, that may use this server: a numeric address, localhost, the name that the
// server listens on, or one of `allowed` ("*": any). This prevents DNS rebinding: a web page reaches a local server by
// letting its own domain name resolve to this machine, and that name is none of these.
bool host_allowed(std::string_view host, std::string_view listening, const std::vector<std::string>& allowed);
// "example.org" for "example.org:8000" and for "https://example.org:8000"; "" for anything else.
std::string host_of(std::string_view authority_or_origin);

}  // namespace freight::serve
