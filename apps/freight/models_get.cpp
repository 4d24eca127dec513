// `freight models get`: downloads weights by the name of their source, or lists the sources.
#include <cstdio>

#include "command.h"
#include "fetch_progress.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/store/weights_source.h"
#include "options.h"
#include "text_table.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;

void print_document(const Json& json) {
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

void list_sources(bool as_json) {
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows;
  std::string before;
  for (const store::PublishedWeights& w : store::published_weights()) {
    const bool usual = w.model != before;  // of several the first is torchvision's default
    before = w.model;
    const std::string source = cat("torchvision:", w.model, usual ? "" : "/" + w.weights);
    list.push_back({{"source", source},
                    {"model", w.model},
                    {"weights", w.weights},
                    {"file", w.file},
                    {"mib", w.mib},
                    {"top1", w.top1}});
    rows.push_back({source, usual ? w.weights : "", fixed(w.mib, 1), fixed(w.top1, 2)});
  }
  if (as_json) return print_document(list);
  std::fputs(text_table({"source", "default weights", "MiB", "ImageNet top1 %"}, rows).c_str(), stdout);
  std::printf("\nothers: hf:ORG/NAME (Hugging Face), or the address of a file\n");
}

void print_found(const std::string& source, const store::LocalWeights& found, bool as_json) {
  if (as_json) {
    Json j = {{"source", source},
              {"path", found.path},
              {"license", found.license.empty() ? Json(nullptr) : Json(found.license)},
              {"page", found.page},
              {"model", found.model},
              {"files", Json::array()}};
    for (const store::WeightsFile& f : found.files) {
      j["files"].push_back({{"path", f.path}, {"address", f.address}, {"sha256", f.sha256}, {"bytes", f.bytes}});
    }
    return print_document(j);
  }
  for (const store::WeightsFile& f : found.files) {
    std::printf("address  %s\nsha256   %s\nfile     %s (%s)\n", printable(f.address).c_str(), f.sha256.c_str(),
                printable(f.path).c_str(), human_bytes(static_cast<double>(f.bytes)).c_str());
  }
  std::printf("license  %s%s\n", found.license.empty() ? "not stated" : found.license.c_str(),
              found.page.empty() ? "" : cat("; see ", found.page).c_str());
  if (!found.model.empty()) {
    std::printf("try      freight train DIR --model %s --weights %s\n", found.model.c_str(), source.c_str());
  }
}

}  // namespace

int models_get_command(const Args& args) {
  std::string source;
  bool as_json = false, progress_wanted = true;
  Options o("models get", "Downloads trained weights, or without SOURCE lists those of torchvision.",
            "[SOURCE] [options]",
            "  freight models get torchvision:resnet50\n"
            "  freight models get hf:timm/resnet50.a1_in1k        # @REVISION, or /FILE for one of several files\n"
            "  freight models get https://example.org/weights.safetensors#sha256=HEX\n"
            "Files go to the caches of PyTorch and Hugging Face. Partial downloads resume, the SHA-256 is checked.\n"
            "--weights takes the same names, and downloads what is missing. Private and gated models need HF_TOKEN.");
  o.positional("SOURCE", &source, "torchvision:NAME, hf:ORG/NAME or an address", false);
  o.add("--progress", &progress_wanted, "a progress line on stderr");
  o.add("--json", &as_json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (source.empty()) {
    list_sources(as_json);
    return 0;
  }
  signals::install();
  Progress progress(progress_wanted ? Progress::Mode::automatic : Progress::Mode::off);
  const store::LocalWeights found =
      store::find_weights(source, {.prefer_cache = false, .fetch = fetch_with_progress(progress)});
  progress.clear();
  print_found(source, found, as_json);
  return 0;
}

}  // namespace freight::app
