// Load on a running `freight serve`: binary infer requests over keep-alive connections, plain sockets and one thread,
// so that the generator costs little of the machine it shares with the server. One JSON object on stdout: rates,
// latency percentiles, statuses, and the server's own memory and compute time from /metrics.
//
//   bench_serve_load PORT MODEL C,H,W [--connections 1] [--requests 20000 | --seconds 60] [--rate R] [--malformed 0.05]
//
// Without --rate every connection sends its next request when the last is answered; with it requests are due at fixed
// times, and latency counts from the time at which one was due. A malformed request must be answered by a status of 400
// to 499; anything else that is wrong counts as an error.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "freight/base/philox.h"
#include "freight/base/strings.h"

namespace {

using namespace freight;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Plan {
  int port = 8000;
  std::string model;
  std::vector<std::string> shape;
  int connections = 1;
  int64_t requests = 20000;
  double seconds = 0, rate = 0, malformed = 0;
};

int connected(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error(cat("cannot connect to 127.0.0.1:", port, ": ", std::strerror(errno)));
  }
  return fd;
}

std::string post(const std::string& path, const std::string& headers, const std::string& body) {
  return cat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers, "Content-Length: ", body.size(), "\r\n\r\n",
             body);
}

// A image of UINT8 noise.
std::string good_request(const Plan& p) {
  int64_t size = 1;
  for (const std::string& extent : p.shape) size *= std::atoll(extent.c_str());
  std::string pixels(static_cast<size_t>(size), '\0');
  PhiloxStream random(1, 0, 0);
  for (char& c : pixels) c = static_cast<char>(random.bits());
  const std::string json =
      cat(R"({"inputs":[{"name":"input","datatype":"UINT8","shape":[1,)", join(p.shape, ","),
          R"(],"parameters":{"binary_data_size":)", size, R"(}}],"parameters":{"binary_data_output":true}})");
  return post(cat("/v2/models/", p.model, "/infer"), cat("Inference-Header-Content-Length: ", json.size(), "\r\n"),
              json + pixels);
}

// After some of these the server closes the connection, and says so.
std::vector<std::string> bad_requests(const Plan& p) {
  const std::string path = cat("/v2/models/", p.model, "/infer");
  return {post(path, "", "{\"inputs\":[{"),
          post(path, "", R"({"inputs":[{"name":"input","datatype":"FP64","shape":[1],"data":[1]}]})"),
          post(path, "", R"({"inputs":[{"name":"input","datatype":"FP32","shape":[1,2],"data":[NaN,1]}]})"),
          post(path, "", R"({"inputs":[{"name":"input","datatype":"FP32","shape":[1,3],"data":[1,2,3]}]})"),
          post("/v2/models/nothing/infer", "", "{}"),
          post("/predict", "Content-Type: image/png\r\n", "no image"),
          "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"};
}

struct Line {
  int fd = -1;
  std::string in;
  bool busy = false, bad = false;
  Clock::time_point due;
};

struct Tally {
  std::vector<float> good;  // seconds
  std::map<int, int64_t> statuses;
  int64_t malformed = 0, errors = 0;
};

// The status of a whole answer at the front of `in`, which is taken off; 0 while it is not whole. `closes`: the server
// ends the connection after it.
int take_answer(std::string& in, bool& closes) {
  const size_t head = in.find("\r\n\r\n");
  if (head == std::string::npos) return 0;
  const size_t at = in.find("Content-Length: ");
  const size_t length = at < head ? std::strtoull(in.c_str() + at + 16, nullptr, 10) : 0;
  if (in.size() < head + 4 + length) return 0;
  const int status = std::atoi(in.c_str() + 9);
  closes = in.find("Connection: close") < head;
  in.erase(0, head + 4 + length);
  return status;
}

std::string metrics(int port) {
  const int fd = connected(port);
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  std::string all;
  if (::send(fd, request.data(), request.size(), 0) > 0) {
    char buffer[1 << 16];
    for (ssize_t n = 0; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;) all.append(buffer, static_cast<size_t>(n));
  }
  ::close(fd);
  return all;
}
double metric(const std::string& text, const std::string& name) {
  const size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + 2 + name.size());
}

class Load {
 public:
  explicit Load(const Plan& p) : p_(p), good_(good_request(p)), bad_(bad_requests(p)), epoll_(::epoll_create1(0)) {
    lines_.resize(static_cast<size_t>(p.connections));
    for (Line& line : lines_) open(line);
  }

  Tally run(double& seconds, double (&memory)[2]) {
    start_ = Clock::now();
    memory[0] = memory[1] = 0;
    for (size_t i = 0; i < lines_.size() && p_.rate == 0; ++i) send(lines_[i], Clock::now());
    epoll_event events[256];
    while (!done() || pending_ > 0) {
      const double now = Seconds(Clock::now() - start_).count();
      // After a minute (or a fifth of a shorter run) memory has settled.
      if (memory[0] == 0 && p_.seconds > 0 && now > std::min(60.0, p_.seconds / 5)) {
        memory[0] = metric(metrics(p_.port), "process_resident_memory_bytes");
      }
      if (p_.rate > 0) send_due();
      const timespec patience = until_next();
      const int n = ::epoll_pwait2(epoll_, events, 256, &patience, nullptr);
      for (int i = 0; i < n; ++i) receive(lines_[events[i].data.u32]);
    }
    seconds = Seconds(Clock::now() - start_).count();
    memory[1] = metric(metrics(p_.port), "process_resident_memory_bytes");
    return std::move(tally_);
  }

 private:
  bool done() const {
    return p_.seconds > 0 ? Seconds(Clock::now() - start_).count() > p_.seconds : sent_ >= p_.requests;
  }
  // A second, or with a rate the time to the next request.
  timespec until_next() const {
    if (p_.rate == 0) return {1, 0};
    const double left = static_cast<double>(sent_) / p_.rate - Seconds(Clock::now() - start_).count();
    return {0, static_cast<long>(std::clamp(left, 0.0, 0.1) * 1e9)};
  }
  void open(Line& line) {
    line.fd = connected(p_.port);
    line.in.clear();
    epoll_event e{EPOLLIN, {}};
    e.data.u32 = static_cast<uint32_t>(&line - lines_.data());
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, line.fd, &e);
  }
  // Every 1 / rate seconds a request is due; it waits here while all connections are busy.
  void send_due() {
    while (!done()) {
      const auto due =
          start_ + std::chrono::duration_cast<Clock::duration>(Seconds(static_cast<double>(sent_) / p_.rate));
      if (due > Clock::now()) return;
      const auto idle = std::find_if(lines_.begin(), lines_.end(), [](const Line& l) { return !l.busy; });
      if (idle == lines_.end()) return;
      send(*idle, due);
    }
  }
  void send(Line& line, Clock::time_point due) {
    line.bad = p_.malformed > 0 && random_.uniform() < static_cast<float>(p_.malformed);
    const std::string& text = line.bad ? bad_[random_.below(static_cast<uint32_t>(bad_.size()))] : good_;
    line.due = due;
    line.busy = true;
    ++sent_;
    ++pending_;
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = ::send(line.fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return broken(line);
      done += static_cast<size_t>(n);
    }
  }
  void broken(Line& line) {
    ++tally_.errors;
    --pending_;
    line.busy = false;
    reopen(line);
  }
  void reopen(Line& line) {
    ::close(line.fd);
    open(line);
  }
  void receive(Line& line) {
    char buffer[1 << 16];
    const ssize_t n = ::recv(line.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return line.busy ? broken(line) : reopen(line);  // one that idled too long is no error
    line.in.append(buffer, static_cast<size_t>(n));
    bool closes = false;
    const int status = take_answer(line.in, closes);
    if (status == 0) return;
    line.busy = false;
    --pending_;
    ++tally_.statuses[status];
    if (line.bad) {
      ++tally_.malformed;
      tally_.errors += status < 400 || status >= 500;
    } else {
      tally_.errors += status != 200;
      tally_.good.push_back(static_cast<float>(Seconds(Clock::now() - line.due).count()));
    }
    if (closes) reopen(line);
    if (p_.rate == 0 && !done()) send(line, Clock::now());
  }

  Plan p_;
  std::string good_;
  std::vector<std::string> bad_;
  int epoll_;
  std::vector<Line> lines_;
  Clock::time_point start_;
  int64_t sent_ = 0, pending_ = 0;
  PhiloxStream random_{7, 0, 0};
  Tally tally_;
};

Plan parse(int argc, char** argv) {
  if (argc < 4) throw std::runtime_error("usage: see the head of bench/serve_load.cpp");
  Plan p;
  p.port = std::atoi(argv[1]);
  p.model = argv[2];
  p.shape = split(argv[3], ',');
  for (int i = 4; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (flag == "--connections") {
      p.connections = static_cast<int>(value);
    } else if (flag == "--requests") {
      p.requests = static_cast<int64_t>(value);
    } else if (flag == "--seconds") {
      p.seconds = value;
    } else if (flag == "--rate") {
      p.rate = value;
    } else if (flag == "--malformed") {
      p.malformed = value;
    } else {
      throw std::runtime_error("unknown flag " + flag);
    }
  }
  return p;
}

int run(const Plan& p) {
  const std::string before = metrics(p.port);
  double seconds = 0, memory[2];
  Tally t = Load(p).run(seconds, memory);
  const std::string after = metrics(p.port);
  std::sort(t.good.begin(), t.good.end());
  const auto us = [&](double share) {
    return t.good.empty() ? 0 : 1e6 * t.good[static_cast<size_t>(share * static_cast<double>(t.good.size() - 1))];
  };
  const std::string label = cat("{model=\"", p.model, "\"}");
  const auto grown = [&](const std::string& name) {
    return metric(after, name + label) - metric(before, name + label);
  };
  std::string statuses;
  for (const auto& [status, count] : t.statuses)
    statuses += cat(statuses.empty() ? "" : ", ", "\"", status, "\": ", count);
  std::printf(
      "{\"connections\": %d, \"seconds\": %.2f, \"good\": %zu, \"malformed\": %lld, \"errors\": %lld, "
      "\"requests_per_s\": %.0f, \"us\": {\"p50\": %.0f, \"p90\": %.0f, \"p99\": %.0f, \"p999\": %.0f, \"max\": %.0f}, "
      "\"server\": {\"mean_batch\": %.2f, \"compute_us_per_batch\": %.1f, \"memory_settled_mib\": %.1f, "
      "\"memory_end_mib\": %.1f}, \"statuses\": {%s}}\n",
      p.connections, seconds, t.good.size(), static_cast<long long>(t.malformed), static_cast<long long>(t.errors),
      static_cast<double>(t.good.size()) / seconds, us(0.5), us(0.9), us(0.99), us(0.999), us(1),
      grown("freight_batch_size_sum") / std::max(1.0, grown("freight_batch_size_count")),
      1e6 * grown("freight_compute_seconds_sum") / std::max(1.0, grown("freight_compute_seconds_count")),
      memory[0] / (1 << 20), memory[1] / (1 << 20), statuses.c_str());
  return t.errors == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
