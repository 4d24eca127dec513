// See network_address_internal.h.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/comm/network_address_internal.h"

namespace freight::comm {

namespace {

template <class T>
T& as(SocketAddress& a) {
  return reinterpret_cast<T&>(a.storage);
}
template <class T>
const T& as(const SocketAddress& a) {
  return reinterpret_cast<const T&>(a.storage);
}

SocketAddress copy_of(const sockaddr* from) {
  SocketAddress a;
  if (from->sa_family == AF_INET) a.length = sizeof(sockaddr_in);
  if (from->sa_family == AF_INET6) a.length = sizeof(sockaddr_in6);
  std::memcpy(&a.storage, from, a.length);
  return a;
}

struct InterfaceAddress {
  std::string name;
  SocketAddress address;
};

// The addresses of interfaces that are up, without IPv6's link-local addresses, which are valid only with the number of
// the link.
std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    fail(ErrorKind::runtime, "interfaces", "cannot be listed: ", std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(first, ::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* i = first; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
    const SocketAddress a = copy_of(i->ifa_addr);
    if (a.length == 0) continue;
    if (a.family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&as<sockaddr_in6>(a).sin6_addr)) continue;
    all.push_back({i->ifa_name, a});
  }
  return all;
}

}  // namespace

int SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? as<sockaddr_in6>(*this).sin6_port : as<sockaddr_in>(*this).sin_port);
}

void SocketAddress::set_port(int port) {
  (family() == AF_INET6 ? as<sockaddr_in6>(*this).sin6_port : as<sockaddr_in>(*this).sin_port) =
      htons(static_cast<uint16_t>(port));
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET6) {
    const in6_addr& a = as<sockaddr_in6>(*this).sin6_addr;
    constexpr int kMapped = 12;  // ::ffff:127.0.0.1
    return IN6_IS_ADDR_LOOPBACK(&a) || (IN6_IS_ADDR_V4MAPPED(&a) && a.s6_addr[kMapped] == 127);
  }
  return ntohl(as<sockaddr_in>(*this).sin_addr.s_addr) >> 24 == 127;
}

std::string SocketAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const a = family() == AF_INET6 ? static_cast<const void*>(&as<sockaddr_in6>(*this).sin6_addr)
                                             : static_cast<const void*>(&as<sockaddr_in>(*this).sin_addr);
  return ::inet_ntop(family(), a, text.data(), text.size()) ? text.data() : "an unknown address";
}

Resolved resolve_host(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  Resolved r;
  if (const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &first); code != 0) {
    r.why = code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code);
    return r;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(first, ::freeaddrinfo);
  for (const addrinfo* i = first; i; i = i->ai_next) {
    SocketAddress a = copy_of(i->ai_addr);
    if (a.length == 0) continue;
    a.set_port(port);
    r.all.push_back(a);
  }
  if (r.all.empty()) r.why = "it has no address";
  return r;
}

SocketAddress interface_address(const std::string& interface, int family) {
  const std::vector<InterfaceAddress> all = interface_addresses();
  const InterfaceAddress* found = nullptr;
  std::vector<std::string> names;
  for (const InterfaceAddress& i : all) {
    names.push_back(cat(i.name, " (", i.address.text(), ")"));
    if (i.name != interface && i.address.text() != interface) continue;
    if (family != AF_UNSPEC && i.address.family() != family) continue;
    if (!found || (found->address.family() != AF_INET && i.address.family() == AF_INET)) found = &i;
  }
  if (found) return found->address;
  fail(ErrorKind::usage, "--interface", "expected ",
       family == AF_INET    ? "one with an IPv4 address, like that of rank 0, of "
       : family == AF_INET6 ? "one with an IPv6 address, like that of rank 0, of "
                            : "one of ",
       join(names, ", "), ", got '", excerpt(interface), "'");
}

SocketAddress own_end(int socket) {
  SocketAddress a;
  a.length = sizeof(a.storage);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&a.storage), &a.length);
  return a;
}

SocketAddress other_end(int socket) {
  SocketAddress a;
  a.length = sizeof(a.storage);
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&a.storage), &a.length);
  return a;
}

Descriptor tcp_socket(int family) {
  Descriptor s(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (s.get() < 0) fail(ErrorKind::runtime, "rendezvous", "cannot make a socket: ", std::strerror(errno));
  return s;
}

Descriptor connected_to(const SocketAddress& address, const std::string& interface, double seconds, int& error) {
  Descriptor s = tcp_socket(address.family());
  if (!interface.empty()) {
    const SocketAddress own = interface_address(interface, address.family());
    if (::bind(s.get(), own.raw(), own.length) != 0) {
      fail(ErrorKind::runtime, "rendezvous", "cannot use ", own.text(), ": ", std::strerror(errno));
    }
  }
  error = ::connect(s.get(), address.raw(), address.length) == 0 ? 0 : errno;
  if (error != EINPROGRESS) return s;
  pollfd p = {.fd = s.get(), .events = POLLOUT, .revents = 0};
  socklen_t size = sizeof(error);
  if (::poll(&p, 1, static_cast<int>(seconds * 1e3) + 1) == 1) {
    ::getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  } else {
    error = ETIMEDOUT;
  }
  return s;
}

bool send_bytes(int socket, const std::string& bytes, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n > 0) at += static_cast<size_t>(n);
    if (n > 0 || errno == EINTR) continue;
    const double left = seconds - seconds_since(start);
    if (errno != EAGAIN || left <= 0) return false;
    pollfd p = {.fd = socket, .events = POLLOUT, .revents = 0};
    ::poll(&p, 1, static_cast<int>(std::min(left, 3600.0) * 1e3) + 1);
  }
  return true;
}

bool receive_some(int socket, std::string& inbox, size_t need) {
  std::array<char, 16384> part{};
  while (inbox.size() < need) {
    const ssize_t n = ::recv(socket, part.data(), std::min(part.size(), need - inbox.size()), 0);
    if (n > 0) inbox.append(part.data(), static_cast<size_t>(n));
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    return n < 0 && errno == EAGAIN;
  }
  return true;
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace freight::comm
