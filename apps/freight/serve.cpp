// `freight serve`: serves saved models over HTTP until a signal.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/comm/launch_environment.h"
#include "freight/io/file.h"
#include "freight/job/signals.h"
#include "freight/serve/server.h"
#include "freight/store/precision.h"
#include "options.h"

namespace freight::app {
namespace {

// Parses NAME=FILE, or FILE: a '=' after a slash belongs to the path.
serve::ModelFile parse_model(const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || text.find('/') < at) return {"", text};
  return {text.substr(0, at), text.substr(at + 1)};
}

// The token itself, or the content of @FILE: other users of the machine can see a command line.
std::string read_token(const std::string& text) {
  if (!starts_with(text, "@")) return text;
  std::string token = io::read_text(text.substr(1));
  token.erase(token.find_last_not_of("\n\r \t") + 1);
  if (token.empty()) fail(ErrorKind::usage, "--token", "there is no token in ", text.substr(1));
  return token;
}

// Refuses a token that no header can contain, since it would never match: headers are trimmed and have no control
// characters.
void check_token(const std::string& token) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; };
  const bool trimmed = token.empty() || (token.front() != ' ' && token.back() != ' ');
  if (trimmed && std::none_of(token.begin(), token.end(), is_control)) return;
  fail(ErrorKind::usage, "--token",
       "begins or ends with a space, or contains control characters: no client can send that");
}

// Ends the process in time even if a request computes and cannot be interrupted.
void end_after(double seconds) {
  constexpr double kGrace = 0.5;  // for closing connections
  std::thread([seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds + kGrace));
    std::fprintf(stderr, "warning: a request was still running %g seconds after the signal\n", seconds);
    _exit(signals::exit_code());
  }).detach();
}

}  // namespace

int serve_command(const Args& args) {
  std::vector<std::string> files;
  std::string token;
  serve::ServerOptions s;
  int64_t port = 8000, max_body_mb = 32, max_held_mb = 256, max_header_kb = 16;
  double max_delay_ms = 0, drain = 30;
  Options o("serve", "Serves predictions of saved models over HTTP, with a page to try them.",
            "MODEL.safetensors ... [options]",
            "Speaks the Open Inference Protocol (KServe V2) with binary tensors: POST /v2/models/NAME/infer.\n"
            "POST /predict accepts an image or a text. / is the page, /metrics is for Prometheus. Ends on SIGTERM or\n"
            "SIGINT after all requests are done. docs/serve.md has examples.\n"
            "  freight serve runs/convnet-digits/model.safetensors\n"
            "  freight serve digits=a.safetensors reviews=b.safetensors --port 9000 --token @secret.txt");
  o.positional("models", &files, "saved models, FILE or NAME=FILE (default name: the model's own)", true);
  o.add("--host", &s.host, "address to listen on; 0.0.0.0 is all addresses of the machine", {.value = "ADDRESS"});
  o.add("--port", &port, "port to listen on; 0 selects a free one and prints it", {.min = 0, .max = 65535});
  o.add("--allow-host", &s.allowed_hosts, "a host name that clients may use, besides addresses and localhost; * is any",
        {.value = "NAME"});
  o.add("--token", &token, "require `Authorization: Bearer TOKEN`, except for health checks and the page",
        {.value = "TOKEN|@FILE"});
  o.group("Batches");
  o.add("--max-batch", &s.max_batch, "maximum samples per step of a network; rows of a table run in one call",
        {.min = 1, .max = 1024});
  o.add("--max-delay-ms", &max_delay_ms, "how long a sample may wait for others; 0: only batch those that wait already",
        {.min = 0, .max = 60000});
  o.group("Limits");
  o.add("--max-connections", &s.max_connections,
        "maximum connections; one more replaces an idle one or gets status 503", {.min = 1, .max = 10000});
  o.add("--max-body-mb", &max_body_mb, "maximum body of a request in MiB; larger ones get 413",
        {.min = 1, .max = 4096});
  o.add("--max-held-mb", &max_held_mb,
        "maximum memory of all bodies in MiB, unpacked; a request beyond it gets status 503",
        {.min = 1, .max = 1 << 20});
  o.add("--max-header-kb", &max_header_kb, "maximum header of a request in KiB; larger ones get 431",
        {.min = 1, .max = 1024});
  o.add("--max-samples", &s.max_samples, "maximum samples of a request; more get status 400",
        {.min = 1, .max = 1 << 24});
  o.add("--timeout-s", &s.timeout_seconds,
        "timeout for receiving a request and sending a response; idle connections are closed after it",
        {.min = 0.1, .max = 86400});
  o.add("--drain-s", &drain, "after a signal, time for requests that have begun", {.min = 0, .max = 86400});
  o.group("Computing");
  o.add("--device", &s.backend, "auto, cpu or ref");
  o.add("--precision", &s.precision, "fp32, tf32, bf16 or fp16", {.one_of = store::precision_names()});
  o.add("--deterministic", &s.deterministic, "fixed kernel choices, no measurement");
  o.essentials({"models", "--host", "--port", "--token", "--allow-host", "--max-batch", "--max-delay-ms",
                "--max-connections", "--max-body-mb", "--timeout-s", "--device", "--precision", "--help"});
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (o.given("--token") && token.empty()) fail(ErrorKind::usage, "--token", "is empty");
  signals::install();
  std::vector<serve::ModelFile> models;
  for (const std::string& file : files) models.push_back(parse_model(file));
  s.port = static_cast<int>(port);
  s.token = read_token(token);
  check_token(s.token);
  s.max_delay_seconds = max_delay_ms * 1e-3;
  s.max_body_bytes = static_cast<size_t>(max_body_mb) << 20;
  s.max_held_bytes = static_cast<size_t>(max_held_mb) << 20;
  s.max_header_bytes = static_cast<size_t>(max_header_kb) << 10;
  s.warmed = [&](const std::string& model, int64_t done, int64_t all) {
    if (done == all && !o.quiet()) {
      std::fprintf(stderr, "model   %s: %lld plans prepared, batches of up to %lld\n", model.c_str(),
                   static_cast<long long>(all), static_cast<long long>(s.max_batch));
    }
    return !signals::stop_requested();
  };
  serve::Server server(models, s);
  if (signals::stop_requested()) return signals::exit_code();
  if (!comm::is_loopback(s.host) && s.token.empty()) {
    std::fprintf(stderr, "warning: %s can be reached from other machines, and no --token is required\n",
                 s.host.c_str());
  }
  for (const std::string& line : server.thresholds()) {
    if (!o.quiet()) std::fprintf(stderr, "predict %s (the saved threshold)\n", printable(line).c_str());
  }
  server.start();
  std::printf("serving %s on http://%s:%d/\n", join(server.names(), ", ").c_str(),
              s.host.find(':') == std::string::npos ? s.host.c_str() : cat("[", s.host, "]").c_str(), server.port());
  std::fflush(stdout);
  while (!signals::stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (!o.quiet()) std::fprintf(stderr, "stopping: finishing the requests in progress\n");
  end_after(drain);
  if (!server.stop(drain)) {
    std::fprintf(stderr, "warning: requests were aborted %g seconds after the signal\n", drain);
  }
  return signals::exit_code();
}

}  // namespace freight::app
