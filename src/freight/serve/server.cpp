// See server.h: connects models, engine, routes and HTTP.
#include "freight/serve/server.h"

#include <set>

#include "freight/base/error.h"
#include "freight/serve/engine.h"
#include "freight/serve/http.h"
#include "freight/serve/model.h"
#include "freight/serve/routes.h"

namespace freight::serve {

namespace {

HttpServer::Callbacks callbacks(std::unique_ptr<Routes>& routes) {
  return {.admit = [&](const Request& r) { return routes->admit(r); },
          .answer = [&](const Request& r) { return routes->answer(r); },
          .error_body = error_json};
}

}  // namespace

struct Server::State {
  std::vector<std::unique_ptr<ServedModel>> models;
  HttpMetrics metrics;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Routes> routes;
  std::unique_ptr<HttpServer> http;  // its threads use all of the above, so it is destroyed first
};

Server::Server(const std::vector<ModelFile>& files, const ServerOptions& o) : state_(std::make_unique<State>()) {
  State& s = *state_;
  if (files.empty()) fail(ErrorKind::usage, "serve", "there is no model to serve");
  std::set<std::string> names;
  std::vector<ServedModel*> models;
  for (const ModelFile& f : files) {
    s.models.push_back(std::make_unique<ServedModel>(f.name, store::load_bundle(f.path),
                                                     deploy::PredictorOptions{.backend = o.backend,
                                                                              .precision = o.precision,
                                                                              .deterministic = o.deterministic,
                                                                              .batch_size = o.max_batch},
                                                     o.max_samples));
    models.push_back(s.models.back().get());
    if (!names.insert(models.back()->name()).second) {
      fail(ErrorKind::usage, f.path, "is a second model named ", models.back()->name(), "; rename it by NAME=", f.path);
    }
  }
  // Binds before the plans are made, which takes long: a port that is in use is reported at once.
  s.http = std::make_unique<HttpServer>(HttpOptions{.host = o.host,
                                                    .port = o.port,
                                                    .max_connections = o.max_connections,
                                                    .allowed_hosts = o.allowed_hosts,
                                                    .max_header_bytes = o.max_header_bytes,
                                                    .max_body_bytes = o.max_body_bytes,
                                                    .max_held_bytes = o.max_held_bytes,
                                                    .timeout_seconds = o.timeout_seconds},
                                        callbacks(s.routes), s.metrics);
  s.engine = std::make_unique<Engine>(
      models, EngineOptions{.max_delay_seconds = o.max_delay_seconds},
      [&](const ServedModel& m, int64_t done, int64_t all) { return o.warmed(m.name(), done, all); });
  s.routes = std::make_unique<Routes>(models, *s.engine, s.metrics, o.token);
}

Server::~Server() = default;

int Server::port() const { return state_->http->port(); }

std::vector<std::string> Server::names() const {
  std::vector<std::string> all;
  for (const auto& m : state_->models) all.push_back(m->name());
  return all;
}

std::vector<std::string> Server::thresholds() const {
  std::vector<std::string> all;
  for (const auto& m : state_->models) {
    if (const std::string above = store::thresholds_text(m->predictor().bundle()); !above.empty())
      all.push_back(cat(m->name(), ": ", above));
  }
  return all;
}

void Server::start() { state_->http->start(); }

bool Server::stop(double seconds) {
  state_->engine->hurry();
  return state_->http->drain(seconds);
}

}  // namespace freight::serve
