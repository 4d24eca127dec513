// Addresses of hosts and of this host's interfaces, and non-blocking sends and receives.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "freight/comm/descriptor_internal.h"

namespace freight::comm {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  int port() const;
  void set_port(int port);
  bool is_loopback() const;
  std::string text() const;  // numeric, without the port: "10.0.0.1"
};

struct Resolved {
  std::vector<SocketAddress> all;
  std::string why;  // the reason if there are none
};
Resolved resolve_host(const std::string& host, int port);

// The address of this host at `interface`, which is a name ("eth0") or the address itself. `family` AF_UNSPEC prefers
// IPv4 if the interface has both. Throws Error(usage) that names the existing interfaces.
SocketAddress interface_address(const std::string& interface, int family = AF_UNSPEC);

// The two ends of a socket's connection.
SocketAddress own_end(int socket);
SocketAddress other_end(int socket);

// A non-blocking socket; throws Error(runtime).
Descriptor tcp_socket(int family);
// A non-blocking socket that is connected to `address` within `seconds`, from this host's `interface` if one is named.
// `error` is 0, or the errno of why it is not connected.
Descriptor connected_to(const SocketAddress& address, const std::string& interface, double seconds, int& error);

// Sends all bytes within `seconds`. False if the other end is gone or does not read.
bool send_bytes(int socket, const std::string& bytes, double seconds);
// Reads what has arrived, until `inbox` has `need` bytes. False if the other end is gone.
bool receive_some(int socket, std::string& inbox, size_t need);
// Turns off the delay of small messages (Nagle's algorithm).
void send_at_once(int socket);

}  // namespace freight::comm
