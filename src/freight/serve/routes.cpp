// See routes.h.
#include "freight/serve/routes.h"

#include <nettle/memops.h>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/version.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/serve/page_internal.h"
#include "freight/serve/protocol.h"

namespace freight::serve {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int64_t kUsualTop = 10;
constexpr size_t kMaxTextBytes = size_t{4} << 20;  // of JSON or a row; far more than any model reads

Reply error(int status, const std::string& text) { return {.status = status, .body = error_json(text)}; }

// Its time does not depend on where the texts differ; it may reveal their length.
bool equal_in_constant_time(const std::string& a, const std::string& b) {
  return a.size() == b.size() && memeql_sec(a.data(), b.data(), a.size()) == 1;
}

io::ByteView view(const std::string& text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

// The media type in lower case, without parameters.
std::string media_type(const Request& request) {
  std::string type = lower(request.header("Content-Type"));
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  return type;
}

// The text of a request to /predict: the body, or "text" in a JSON object.
std::string text_of(const Request& request, const std::string& type) {
  if (type != "application/json") return request.body();
  const auto j = io::parse_json<nlohmann::json>(request.body(), "predict");
  if (!j.is_object() || !j.contains("text") || !j["text"].is_string()) {
    fail(ErrorKind::usage, "predict", "the JSON must be {\"text\": \"...\"}");
  }
  return j["text"].get<std::string>();
}

}  // namespace

Routes::Routes(std::vector<ServedModel*> models, Engine& engine, HttpMetrics& http, std::string token)
    : models_(std::move(models)), engine_(engine), http_(http), token_(std::move(token)) {
  server_ = Json{{"name", "freight"},
                 {"version", version()},
                 {"extensions", {"binary_tensor_data", "classification", "model_configuration", "model_repository"}}}
                .dump();
  Json index = Json::array(), cards = Json::array();
  for (const ServedModel* m : models_) {
    index.push_back({{"name", m->name()}, {"version", "1"}, {"state", "READY"}, {"reason", ""}});
    cards.push_back(io::parse_json<Json>(m->page_json(), m->name()));
  }
  index_ = index.dump();
  cards_ = cards.dump();
}

ServedModel* Routes::model_named(const std::string& name) const {
  for (ServedModel* m : models_) {
    if (m->name() == name) return m;
  }
  return nullptr;
}

std::string Routes::no_model(const std::string& name) const {
  std::vector<std::string> names;
  for (const ServedModel* m : models_) names.push_back(m->name());
  return cat("there is no model \"", name.substr(0, 80), "\"; this server has ", join(names, ", "));
}

Routes::Found Routes::find(const std::string& path) const {
  using What = Route::What;
  const auto route = [](What what, Verb verb, bool open = false) {
    return Found{Route{what, verb, open, nullptr}, ""};
  };
  if (path == "/") return route(What::page, Verb::get, true);
  if (path == "/v2/health/live") return route(What::live, Verb::get, true);
  if (path == "/v2/health/ready") return route(What::ready, Verb::get, true);
  if (path == "/v2" || path == "/v2/") return route(What::server, Verb::get);
  if (path == "/metrics") return route(What::metrics, Verb::get);
  if (path == "/models") return route(What::models, Verb::get);
  if (path == "/v2/repository/index") return route(What::index, Verb::post);
  if (path == "/predict") return {Route{What::predict, Verb::post, false, models_[0]}, ""};
  const auto behind = [&](const char* prefix) { return path.substr(std::string_view(prefix).size()); };
  if (starts_with(path, "/predict/")) {
    ServedModel* model = model_named(behind("/predict/"));
    if (!model) return {{}, no_model(behind("/predict/"))};
    return {Route{What::predict, Verb::post, false, model}, ""};
  }
  if (starts_with(path, "/v2/models/")) {
    const std::string rest = behind("/v2/models/");
    const size_t end = std::min(rest.find('/'), rest.size());
    return find_model(rest.substr(0, end), rest.substr(end));
  }
  return {{}, "not found; / is the page, /v2/models/MODEL/infer and /predict make predictions"};
}

// `rest` is the path after the name: "", "/ready", "/versions/1/infer", ...
Routes::Found Routes::find_model(const std::string& name, const std::string& rest) const {
  using What = Route::What;
  ServedModel* model = model_named(name);
  if (!model) return {{}, no_model(name)};
  std::string what = rest;
  if (starts_with(what, "/versions/")) {
    const size_t end = std::min(what.find('/', 10), what.size());
    if (what.substr(10, end - 10) != "1") return {{}, cat("model ", name, " has one version: 1")};
    what.erase(0, end);
  }
  if (what.empty()) return {Route{What::model, Verb::get, false, model}, ""};
  if (what == "/ready") return {Route{What::model_ready, Verb::get, false, model}, ""};
  if (what == "/config") return {Route{What::config, Verb::get, false, model}, ""};
  if (what == "/infer") return {Route{What::infer, Verb::post, false, model}, ""};
  return {{}, cat("model ", name, " has no such path: expected /ready, /config or /infer after its name")};
}

bool Routes::authorized(const Request& request) const {
  if (token_.empty()) return true;
  const std::string got = request.header("Authorization");
  const size_t end = got.find(' ');  // RFC 7235: a scheme in any case, blanks, the token
  const size_t token = got.find_first_not_of(' ', end);
  return token != std::string::npos && lower(got.substr(0, end)) == "bearer" &&
         equal_in_constant_time(got.substr(token), token_);
}

std::optional<Reply> Routes::admit(const Request& request) const {
  const Found found = find(request.path());
  if (!(found.route && found.route->open) && !authorized(request)) {
    Reply r = error(401, "this server needs a token: send the header Authorization: Bearer TOKEN");
    r.headers.emplace_back("WWW-Authenticate", "Bearer");
    return r;
  }
  if (!found.route) return error(404, found.reason);
  const bool post = found.route->verb == Verb::post;
  if (post ? request.method() == "POST" : request.method() == "GET" || request.method() == "HEAD") return {};
  Reply r = error(405, cat(request.path(), " takes ", post ? "POST" : "GET", ", got ", request.method()));
  r.headers.emplace_back("Allow", post ? "POST" : "GET, HEAD");
  return r;
}

Reply Routes::answer(const Request& request) {
  using What = Route::What;
  const Found found = find(request.path());
  if (!found.route) return error(404, found.reason);
  const Route& route = *found.route;
  switch (route.what) {
    case What::page: return page();
    case What::live: return {.body = "{\"live\":true}"};
    case What::ready:
    case What::model_ready: return {.body = "{\"ready\":true}"};
    case What::server: return {.body = server_};
    case What::metrics: {
      std::vector<NamedMetrics> all;
      for (ServedModel* m : models_) all.push_back({m->name(), &m->metrics()});
      const double uptime = seconds_since(started_);
      return {.type = "text/plain; version=0.0.4", .body = metrics_text(all, http_, uptime)};
    }
    case What::models: return {.body = cards_};
    case What::index: return {.body = index_};
    case What::model: return {.body = route.model->metadata()};
    case What::config: return {.body = route.model->config()};
    case What::infer: return counted(*route.model, [&] { return infer(*route.model, request); });
    case What::predict: return counted(*route.model, [&] { return predict(*route.model, request); });
  }
  return error(404, found.reason);
}

Reply Routes::page() const {
  const Page& p = serve::page();
  return {.type = "text/html; charset=utf-8",
          .body = p.html,
          .headers = {{"Content-Security-Policy", p.policy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}}};
}

template <class F>
Reply Routes::counted(ServedModel& model, F&& f) {
  const Clock::time_point start = Clock::now();
  ModelMetrics& m = model.metrics();
  ++m.requests;
  Reply r;
  try {
    r = f();
  } catch (const Engine::Busy&) {
    r = error(503, cat("too many samples wait for model ", model.name(), "; try again later"));
    r.headers.emplace_back("Retry-After", "1");
  } catch (const Error& e) {
    const bool theirs = e.kind() == ErrorKind::usage || e.kind() == ErrorKind::data;
    r = error(theirs ? 400 : 500, e.what());
  } catch (const std::bad_alloc&) {
    r = error(503, "out of memory; send smaller requests");
  }
  if (r.status != 200) ++m.failures;
  m.request_seconds.add(seconds_since(start));
  return r;
}

Reply Routes::infer(ServedModel& model, const Request& request) {
  std::optional<size_t> json_size;
  if (const std::string given = request.header("Inference-Header-Content-Length"); !given.empty()) {
    json_size = parse_number<uint64_t>(given);
    if (!json_size) return error(400, "infer: Inference-Header-Content-Length must be a number of bytes");
  }
  InferRequest r = parse_infer(view(request.body()), json_size, "infer");
  model.check_outputs(r, "infer");
  std::vector<Array> samples = model.samples(r, "infer");
  const auto count = static_cast<int64_t>(samples.size());
  const std::vector<Array> rows = model.reads_rows() ? samples : std::vector<Array>();
  const Array results = engine_.run(model, std::move(samples));
  model.check_results(results, rows);
  model.metrics().samples += count;
  InferResponse answer = write_infer(model.name(), r.id, model.outputs(r, results));
  Reply reply{.body = std::move(answer.body)};
  if (answer.json_size) {
    reply.type = "application/octet-stream";
    reply.headers.emplace_back("Inference-Header-Content-Length", std::to_string(*answer.json_size));
  }
  return reply;
}

Reply Routes::predict(ServedModel& model, const Request& request) {
  const std::string type = media_type(request);
  uint64_t top = kUsualTop;
  if (const std::string given = request.query("top"); !given.empty()) {
    top = parse_number<uint64_t>(given).value_or(0);
    if (top < 1) return error(400, cat("predict: expected a number of classes, from 1, got top=", given.substr(0, 80)));
  }
  if (request.body().empty()) return error(400, "predict: the body is empty: send an image or a text");
  const bool json = type == "application/json" && (model.reads_rows() || model.text());
  const bool row = type == "text/csv" && model.reads_rows();
  if ((json || row) && request.body().size() > kMaxTextBytes) {
    return error(413, cat("predict: the ", json ? "JSON" : "row", " has ", request.body().size(),
                          " bytes, expected at most ", kMaxTextBytes));
  }
  Array sample;
  if (model.reads_rows()) {
    if (type != "application/json" && type != "text/csv") {
      return error(415, cat("predict: model ", model.name(), " reads rows of columns: send application/json or ",
                            "text/csv, got ", type.empty() ? "no Content-Type" : type));
    }
    sample = type == "text/csv" ? model.sample_of_table(request.body(), "predict")
                                : model.sample_of_json(request.body(), "predict");
  } else if (model.text()) {
    if (type != "application/json" && type != "text/plain") {
      return error(415, cat("predict: model ", model.name(), " reads texts: send text/plain or application/json, got ",
                            type.empty() ? "no Content-Type" : type));
    }
    sample = model.predictor().sample_of_text(text_of(request, type), "predict");
  } else {
    if (!starts_with(type, "image/") && type != "application/octet-stream") {
      return error(415,
                   cat("predict: model ", model.name(), " takes images or arrays: send image/png, image/jpeg, ... ",
                       "or application/octet-stream, got ", type.empty() ? "no Content-Type" : type));
    }
    sample = model.predictor().sample_of_bytes(view(request.body()), "predict");
  }
  const Clock::time_point start = Clock::now();
  const Array results = engine_.run(model, {sample});
  const double seconds = seconds_since(start);
  model.check_results(results, {sample});
  ++model.metrics().samples;
  return {.body =
              model.prediction(results.data<float>(), static_cast<int64_t>(std::min<uint64_t>(top, 1 << 20)), seconds,
                               model.reads_rows() ? model.row_warnings(sample) : std::vector<std::string>())};
}

}  // namespace freight::serve
