// See framing_internal.h.
#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "freight/base/strings.h"
#include "freight/serve/framing_internal.h"

namespace freight::serve {

namespace {

bool is_token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

bool is_value(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u == '\t' || (u >= ' ' && u != 0x7f);
  });
}

std::string_view without_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Parses a field line without its line end; false if it is malformed.
bool parse_field(std::string_view line, std::pair<std::string, std::string>& out) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)) || !is_value(line.substr(colon + 1)))
    return false;
  out = {std::string(line.substr(0, colon)), std::string(without_blanks(line.substr(colon + 1)))};
  return true;
}

bool is_authority(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           std::string_view("-._~!$&'()*+,;=:[]%").find(c) != std::string_view::npos;
  });
}

// The reason why the end of the body, or the host of the request, is ambiguous; "" if it is not.
std::string meaning_fault(const Head& head) {
  const auto values = [&](const char* name) {
    std::vector<std::string> all;
    for (const auto& [key, value] : head.fields) {
      if (lower(key) == name) all.push_back(value);
    }
    return all;
  };
  const std::vector<std::string> lengths = values("content-length"), codings = values("transfer-encoding"),
                                 hosts = values("host");
  if (hosts.size() > 1 || (hosts.empty() && head.version == "HTTP/1.1")) {
    return cat("expected one Host, got ", hosts.size());
  }
  if (!hosts.empty() && !is_authority(hosts[0])) return "Host must be a name or an address, perhaps with a port";
  if (lengths.size() + codings.size() > 1) return "a body has one length: one Content-Length, or one Transfer-Encoding";
  if (!codings.empty() && lower(codings[0]) != "chunked") {
    return cat("Transfer-Encoding: expected chunked, got ", codings[0].substr(0, 80));
  }
  if (!codings.empty() && head.version != "HTTP/1.1") return "HTTP/1.0 has no Transfer-Encoding";
  if (!lengths.empty() && (lengths[0].empty() || lengths[0].size() > 18 ||
                           lengths[0].find_first_not_of("0123456789") != std::string::npos)) {
    return "Content-Length must be a number";
  }
  return {};
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Head parse_head(std::string_view text) {
  Head head;
  bool first = true;
  for (size_t at = 0; head.fault.empty();) {
    const size_t end = text.find("\r\n", at);
    if (end == std::string_view::npos) {
      head.fault = "the head does not end with an empty line";
      break;
    }
    const std::string_view line = text.substr(at, end - at);
    at = end + 2;
    if (first) {
      const size_t space = line.find(' '), last = line.rfind(' ');
      const bool sound =
          space != std::string_view::npos && last > space + 1 && is_token(line.substr(0, space)) &&
          std::all_of(line.begin() + static_cast<std::ptrdiff_t>(space) + 1,
                      line.begin() + static_cast<std::ptrdiff_t>(last), [](char c) { return c > ' ' && c < 0x7f; });
      if (!sound) head.fault = "the request line must be METHOD TARGET HTTP/1.1";
      if (sound) head.version = line.substr(last + 1);
      first = false;
      continue;
    }
    if (line.empty()) {
      head.fault = at == text.size() ? meaning_fault(head) : "bytes follow the head";
      break;
    }
    std::pair<std::string, std::string> field;
    if (parse_field(line, field)) {
      head.fields.push_back(std::move(field));
    } else {
      head.fault =
          "a header must be NAME: VALUE, on one line, without blanks in or after its name or control characters";
    }
  }
  for (const auto& [name, value] : head.fields) head.chunked = head.chunked || lower(name) == "transfer-encoding";
  return head;
}

void ChunkDecoder::taken(uint64_t bytes) {
  left_ -= bytes;
  if (left_ == 0) state_ = State::data_return;
}

void ChunkDecoder::step(char c) {
  switch (state_) {
    case State::size: {
      const int d = digit(c);
      if (d >= 0 && digits_ < 15 && !gap_) {
        left_ = left_ * 16 + static_cast<uint64_t>(d);
        ++digits_;
      } else if ((c == ' ' || c == '\t') && digits_ > 0) {
        gap_ = true;
      } else if (c == ';' && digits_ > 0) {
        state_ = State::extension;
        extra_ = 0;
      } else {
        state_ = c == '\r' && digits_ > 0 && !gap_ ? State::size_end : State::broken;
      }
      return;
    }
    case State::extension:
      if (c == '\r') {
        state_ = State::size_end;
      } else if (!is_value({&c, 1}) || ++extra_ > kMostExtension) {
        state_ = State::broken;
      }
      return;
    case State::size_end:
      if (c != '\n') {
        state_ = State::broken;
        return;
      }
      state_ = left_ > 0 ? State::data : State::trailer;
      digits_ = 0;
      gap_ = false;
      extra_ = 0;
      return;
    case State::data_return: state_ = c == '\r' ? State::data_end : State::broken; return;
    case State::data_end: state_ = c == '\n' ? State::size : State::broken; return;
    case State::trailer: trailer(c); return;
    case State::data:
    case State::done:
    case State::broken: return;
  }
}

void ChunkDecoder::trailer(char c) {
  if (++extra_ > kMostTrailer) {
    state_ = State::broken;
    return;
  }
  if (c != '\n') {
    line_ += c;
    return;
  }
  if (line_ == "\r") {
    state_ = State::done;
    return;
  }
  std::pair<std::string, std::string> field;
  const bool sound = ends_with(line_, "\r") && parse_field(std::string_view(line_).substr(0, line_.size() - 1), field);
  // A trailer must not contain fields that determine the message's end or its host.
  const std::string name = lower(field.first);
  if (!sound || name == "content-length" || name == "transfer-encoding" || name == "host") state_ = State::broken;
  line_.clear();
}

std::string host_of(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (starts_with(lower(text), scheme)) text.remove_prefix(scheme.size());
  }
  if (text.find('/') != std::string_view::npos || !is_authority(text)) return {};
  if (text[0] == '[') {
    const size_t end = text.find(']');
    return end == std::string_view::npos ? std::string() : lower(text.substr(1, end - 1));
  }
  return lower(text.substr(0, text.find(':')));
}

bool host_allowed(std::string_view host, std::string_view listening, const std::vector<std::string>& allowed) {
  if (host.empty()) return false;
  std::array<unsigned char, sizeof(in6_addr)> address{};
  const std::string name = lower(host);
  if (::inet_pton(AF_INET, name.c_str(), address.data()) == 1) return true;
  if (::inet_pton(AF_INET6, name.c_str(), address.data()) == 1) return true;
  if (name == "localhost" || ends_with(name, ".localhost") || name == lower(listening)) return true;
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& a) { return a == "*" || lower(a) == name; });
}

}  // namespace freight::serve
