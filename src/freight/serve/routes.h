// The meaning of the server's paths: the Open Inference Protocol, /predict, /models, /metrics, health, and the page.
// Takes requests and returns replies; knows no sockets.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "freight/serve/engine.h"
#include "freight/serve/http.h"
#include "freight/serve/metrics.h"
#include "freight/serve/model.h"

namespace freight::serve {

class Routes {
 public:
  // An empty `token` means that none is needed.
  Routes(std::vector<ServedModel*> models, Engine& engine, HttpMetrics& http, std::string token);

  // Refuses, before the body is read, with status 401, 404 or 405; HttpConnection::check_head() has checked the HTTP.
  std::optional<Reply> admit(const Request& request) const;
  // The reply to an accepted request.
  Reply answer(const Request& request);

 private:
  enum class Verb { get, post };
  // A path that was recognized. `model` is null if the path does not name one.
  struct Route {
    enum class What { page, live, ready, server, metrics, models, index, predict, model, model_ready, config, infer };
    What what;
    Verb verb;
    bool open = false;  // needs no token
    ServedModel* model = nullptr;
  };
  struct Found {
    std::optional<Route> route;
    std::string reason;  // why the path was not recognized
  };
  Found find(const std::string& path) const;
  Found find_model(const std::string& name, const std::string& rest) const;
  ServedModel* model_named(const std::string& name) const;
  std::string no_model(const std::string& name) const;
  bool authorized(const Request& request) const;

  Reply page() const;
  Reply infer(ServedModel& model, const Request& request);
  Reply predict(ServedModel& model, const Request& request);
  // Runs f and turns its errors into replies; counts both for the model.
  template <class F>
  Reply counted(ServedModel& model, F&& f);

  std::vector<ServedModel*> models_;
  Engine& engine_;
  HttpMetrics& http_;
  std::string token_;
  std::string server_, index_, cards_;  // JSON that never changes
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace freight::serve
