// `freight verify`: checks that a saved model predicts the same wherever it is used; one line per claim on stdout.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/deploy/verify.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/train/trained_on.h"
#include "options.h"
#include "verify_world.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;
using State = deploy::Claim::State;

const char* word(State state) {
  return state == State::holds ? "PASS" : state == State::fails ? "FAIL" : "not checked";
}

void print_line(const deploy::Claim& c) {
  std::string line = cat(word(c.state));
  line.resize(std::max<size_t>(line.size(), 13), ' ');
  line += c.name;
  line.resize(std::max<size_t>(line.size() + 2, 26), ' ');
  line += c.text;
  if (c.state != State::unchecked) {
    line += cat(": difference ", significant(c.difference, 2), ", limit ", significant(c.limit, 2));
  }
  std::printf("%s%s\n", line.c_str(), c.note.empty() ? "" : cat(" (", c.note, ")").c_str());
  std::fflush(stdout);
}

struct VerifyFlags {
  std::string model, data_dir;
  std::optional<std::string> text_column, label_column;
  int64_t seed = 0;
  bool json = false;
  std::string world;  // read by verify_world() only
};

void declare(Options& o, VerifyFlags& f, deploy::VerifyOptions& options) {
  o.positional("model", &f.model, "the saved model", true);
  o.add("--data", &options.data,
        "a built-in dataset, a directory or a file (default: random inputs from the seed, and no eval)",
        {.aliases = {"--data-path"}});
  o.add("--data-dir", &f.data_dir, "directory that is searched first for built-in datasets", {.value = "DIR"});
  o.add("--text-column", &f.text_column, "text column of a text file (default: as in training)", {.value = "NAME|N"});
  o.add("--label-column", &f.label_column, "label column of a text file (default: as in training)",
        {.value = "NAME|N"});
  o.add("--samples", &options.samples, "number of samples, evenly over the test set", {.min = 1, .max = 100'000});
  o.add("--seed", &f.seed, "seed of random inputs", {.min = 0});
  o.add("--device", &options.backend, "auto, cpu or ref");
  o.add("--onnx-runtime", &options.python, "a Python with onnxruntime and numpy, to check the exported file with",
        {.value = "PYTHON"});
  o.add("--json", &f.json, "print JSON");
  o.add("--world", &f.world,
        "other check: train DATA or a RUN with each of these numbers of devices, and compare the saved "
        "models byte for byte (freight verify --world 1 --help)",
        {.value = "LIST"});
}

// Prints all claims with their results.
void judge(const std::string& model, const std::vector<deploy::Claim>& claims, bool json) {
  std::vector<std::string> failed;
  Json list = Json::array();
  for (const deploy::Claim& c : claims) {
    if (c.state == State::fails) failed.push_back(c.name);
    Json j = {{"name", c.name}, {"check", c.text}, {"state", lower(word(c.state))}};
    if (c.state != State::unchecked) {
      j["difference"] = std::isfinite(c.difference) ? Json(c.difference) : Json(nullptr);
      j["limit"] = c.limit;
    }
    if (!c.note.empty()) j["note"] = c.note;
    list.push_back(j);
  }
  if (json) {
    const Json j = {{"model", model}, {"passed", failed.empty()}, {"checks", list}};
    std::printf("%s\n", j.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
  if (failed.empty()) return;
  fail(ErrorKind::verification, model, failed.size(), " of ", claims.size(), " checks failed: ", join(failed, ", "));
}

// True if --world is among the arguments, in any spelling that Options accepts.
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
      "verify", "Checks on this machine that eval, predict and the exported ONNX file give the same predictions.",
      "MODEL.safetensors [options]",
      "Every check is a line: PASS, FAIL or not checked, with the largest difference (of probabilities; of values\n"
      "relative to the largest). Exits with 9 if a check fails.\n"
      "  freight verify runs/convnet-digits/model.safetensors --data digits --onnx-runtime python3\n"
      "  freight verify digits --world 1,2,4     # 1, 2 and 4 devices train bitwise the same model");
  declare(o, flags, options);
  if (o.parse(args) == Options::Outcome::done) return 0;
  options.seed = static_cast<uint64_t>(flags.seed);
  options.stop = [] { return signals::stop_requested(); };
  signals::install();
  store::Bundle bundle = store::load_bundle(flags.model);
  const bool net = bundle.net();
  if (!net && (flags.text_column || flags.label_column)) {
    refuse_flag_of(flags.text_column ? "--text-column" : "--label-column", "networks",
                   cat("a model of ", bundle.learner, " is verified with rows that are saved in it"));
  }
  options.load = train::trained_on(bundle, flags.model).load;
  options.load.data_dir = flags.data_dir;
  if (flags.text_column) options.load.text.text_column = *flags.text_column;
  if (flags.label_column) train::set_label_column(options.load, *flags.label_column);
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
