// A server of saved models: the Open Inference Protocol, /predict, a page, metrics. See docs/serve.md.
//   serve::Server server({{"", "model.safetensors"}}, {.port = 8000});
//   server.start();
//   ...
//   server.stop(30);
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace freight::serve {

struct ModelFile {
  std::string name;  // "": the model's own
  std::string path;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;         // 0: any free one
  std::string token = {};  // "": none is needed
  int64_t max_batch = 32;
  int64_t max_samples = 8192;  // of one request
  double max_delay_seconds = 0;
  int64_t max_connections = 256;
  std::vector<std::string> allowed_hosts = {};  // HttpOptions::allowed_hosts
  size_t max_header_bytes = size_t{16} << 10;
  size_t max_body_bytes = size_t{32} << 20;
  size_t max_held_bytes = size_t{256} << 20;  // HttpOptions::max_held_bytes
  double timeout_seconds = 30;                // for receiving a request, sending a response, and idling
  std::string backend = "auto", precision = "fp32";
  bool deterministic = false;
  // Called while plans are made (model, plans made, of how many). Returns false to stop that: a server which is started
  // nevertheless makes the other plans with the requests that need them.
  std::function<bool(const std::string&, int64_t, int64_t)> warmed = [](const std::string&, int64_t, int64_t) {
    return true;
  };
};

class Server {
 public:
  // Loads the models, binds the address and makes all plans. Throws Error: usage (names, options), checkpoint (a
  // damaged file), runtime (the address).
  Server(const std::vector<ModelFile>& files, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  std::vector<std::string> names() const;
  // "spam: junk above 0.1807": the decision thresholds of each model that has some.
  std::vector<std::string> thresholds() const;
  void start();
  // Refuses new requests and completes those that have begun. False if connections had to be closed after `seconds`.
  bool stop(double seconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::serve
