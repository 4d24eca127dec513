// `freight verify`: whether a stored model answers the same wherever it is used; one line per claim on stdout.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "command.h"
#include "freight/base/error.h"
#include "freight/deploy/verify.h"
#include "freight/io/json_library.h"
#include "freight/train/signals.h"
#include "freight/train/trained_on.h"
#include "options.h"
#include "verify_world.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;
using State = deploy::Claim::State;

const char* word(State state) {
  return state == State::holds ? "holds" : state == State::fails ? "FAILS" : "not checked";
}

void print_line(const deploy::Claim& c) {
  std::string line = cat(word(c.state));
  line.resize(std::max<size_t>(line.size(), 13), ' ');
  line += c.name;
  line.resize(std::max<size_t>(line.size() + 2, 26), ' ');
  line += c.text;
  char numbers[64] = "";
  if (c.state != State::unchecked) {
    std::snprintf(numbers, sizeof numbers, ": difference %.2g, limit %.2g", c.difference, c.limit);
  }
  std::printf("%s%s%s\n", line.c_str(), numbers, c.note.empty() ? "" : cat(" (", c.note, ")").c_str());
  std::fflush(stdout);
}

struct VerifyFlags {
  std::string model, data_dir;
  std::optional<std::string> text_column, label_column;
  int64_t seed = 0;
  bool json = false;
  std::string world;  // read by verify_world() alone
};

void declare(Options& o, VerifyFlags& f, deploy::VerifyOptions& options) {
  o.positional("model", &f.model, "the stored model", true);
  o.add("--data", &options.data,
        "a named set, a directory or a file (default: inputs drawn from the seed, and no eval)",
        {.aliases = {"--data-path"}});
  o.add("--data-dir", &f.data_dir, "where named sets are looked for first", {.value = "DIR"});
  o.add("--text-column", &f.text_column, "of a text file (default: as in training)", {.value = "NAME|N"});
  o.add("--label-column", &f.label_column, "the same of the label", {.value = "NAME|N"});
  o.add("--samples", &options.samples, "how many, evenly over the test part", {.min = 1, .max = 100'000});
  o.add("--seed", &f.seed, "of drawn inputs", {.min = 0});
  o.add("--device", &options.backend, "auto, cpu or ref");
  o.add("--onnx-runtime", &options.python, "a Python with onnxruntime and numpy, to check the exported file with",
        {.value = "PYTHON"});
  o.add("--json", &f.json, "print JSON");
  o.add("--world", &f.world,
        "in the place of all that: train DATA or a RUN with each of these numbers of devices, and compare the stored "
        "models byte for byte (freight verify --world 1 --help)",
        {.value = "LIST"});
}

// All claims were judged.
void judge(const std::string& model, const std::vector<deploy::Claim>& claims, bool json) {
  std::vector<std::string> failed;
  Json list = Json::array();
  for (const deploy::Claim& c : claims) {
    if (c.state == State::fails) failed.push_back(c.name);
    Json j = {{"name", c.name}, {"claim", c.text}, {"state", c.state == State::fails ? "fails" : word(c.state)}};
    if (c.state != State::unchecked) {
      j["difference"] = std::isfinite(c.difference) ? Json(c.difference) : Json(nullptr);
      j["limit"] = c.limit;
    }
    if (!c.note.empty()) j["note"] = c.note;
    list.push_back(j);
  }
  if (json) {
    const Json j = {{"model", model}, {"holds", failed.empty()}, {"claims", list}};
    std::printf("%s\n", j.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
  if (failed.empty()) return;
  fail(ErrorKind::verification, model, failed.size(), " of ", claims.size(), " claims fail: ", join(failed, ", "));
}

// True where --world is among the words, under any spelling that Options take.
bool asks_for_world(const Args& args) {
  return std::any_of(args.begin(), args.end(),
                     [](const std::string& a) { return a == "--world" || starts_with(a, "--world="); });
}

}  // namespace

int verify_command(const Args& args) {
  if (asks_for_world(args)) return verify_world(args);
  VerifyFlags flags;
  deploy::VerifyOptions options;
  Options o(
      "verify", "Proves on this machine that eval, predict and the exported ONNX file give the same answers.",
      "MODEL.safetensors [options]",
      "Every claim is a line: holds, FAILS or not checked, with the largest difference (of probabilities; of values\n"
      "relative to the largest). Exits 9 where a claim fails.\n"
      "  freight verify runs/convnet-digits/model.safetensors --data digits --onnx-runtime python3\n"
      "  freight verify digits --world 1,2,4     # that so many devices train the same model, to the byte");
  declare(o, flags, options);
  if (o.parse(args) == Options::Outcome::done) return 0;
  options.seed = static_cast<uint64_t>(flags.seed);
  options.stop = [] { return signals::stop_requested(); };
  signals::install();
  store::Bundle bundle = store::load_bundle(flags.model);
  const bool net = bundle.net();
  if (!net && (flags.text_column || flags.label_column)) {
    fail(ErrorKind::usage, flags.text_column ? "--text-column" : "--label-column",
         "is of nets with --data: a model of ", bundle.learner,
         " is verified by rows that are stored with it; leave it out");
  }
  options.load = train::trained_on(bundle, flags.model).load;
  options.load.data_dir = flags.data_dir;
  if (flags.text_column) options.load.text.text_column = *flags.text_column;
  if (flags.label_column) options.load.text.label_column = *flags.label_column;
  options.load.images.held_out = data::HeldOut::test;
  options.load.text.held_out = data::HeldOut::test;
  if (!flags.json) options.heard = print_line;
  const std::vector<deploy::Claim> claims =
      deploy::verify(net ? store::load_bundle(flags.model) : store::Bundle(), std::move(bundle), options);
  if (signals::stop_requested()) return signals::exit_code();
  judge(flags.model, claims, flags.json);
  return 0;
}

}  // namespace freight::app
