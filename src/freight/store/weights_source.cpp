// See weights_source.h.
#include "freight/store/weights_source.h"

#include <algorithm>
#include <filesystem>

#include "freight/base/cache.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/usage.h"
#include "freight/io/digest.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/models/models.h"
#include "freight/store/hugging_face_internal.h"
#include "freight/store/weights_file_internal.h"

namespace freight::store {

namespace {

namespace fs = std::filesystem;

struct Sources {
  std::string torchvision, torchvision_page, torchvision_license, hugging_face;
  std::vector<PublishedWeights> published;
};

const Sources& sources() {
  static const Sources kSources = [] {
    const auto j = io::parse_json<nlohmann::json>(weights_catalog(), "catalog/weights.json");
    const auto& vision = j.at("torchvision");
    Sources s{vision.at("address"), vision.at("page"), vision.at("license"), j.at("hugging_face").at("address"), {}};
    for (const auto& w : j.at("weights")) {
      s.published.push_back({w.at("model"), w.at("weights"), w.at("file"), w.at("mib"), w.at("top1")});
    }
    return s;
  }();
  return kSources;
}

const std::string kVision = "torchvision:", kHub = "hf:";

// torch.hub's folder of downloaded files.
std::string torch_folder() {
  std::string home = env::get("TORCH_HOME");
  if (home.empty()) {
    const std::string cache = env::get("XDG_CACHE_HOME", env::get("HOME") + "/.cache");
    home = cache + "/torch";
  }
  return home + "/hub/checkpoints";
}

// The digits of the SHA-256 in a name like resnet50-11ad3fa6.pth, as torch.hub reads them; "" where there are none.
std::string digits_in(const std::string& file) {
  constexpr size_t kFewest = 8;
  for (size_t dash = file.find('-'); dash != std::string::npos; dash = file.find('-', dash + 1)) {
    const size_t end = std::min(file.find_first_not_of("0123456789abcdef", dash + 1), file.size());
    if (end - dash - 1 >= kFewest && end < file.size() && file[end] == '.')
      return file.substr(dash + 1, end - dash - 1);
  }
  return "";
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorKind::runtime, folder, "cannot make the directory: ", error.message());
}

WeightsFile described(const std::string& path, const std::string& address) {
  return {path, address, io::sha256_of(path), static_cast<int64_t>(fs::file_size(path))};
}

// One file by its address.
LocalWeights fetch_single(const std::string& address, const std::string& folder, const std::string& file,
                          const io::ExpectedFile& expected, io::FetchOptions fetch) {
  make_folder(folder);
  const std::string path = folder + "/" + file;
  fetch.advice = cat("without a connection: download ", address, " elsewhere and put ", file, " into ", folder);
  io::fetch_file({address}, path, expected, fetch);
  return {.path = path, .files = {described(path, address)}};
}

LocalWeights find_torchvision(const std::string& name, const WeightsOptions& options) {
  const auto& all = sources().published;
  const std::string model = name.substr(0, name.find('/'));
  const std::string weights = name.size() > model.size() ? name.substr(model.size() + 1) : "";
  const auto it = std::find_if(all.begin(), all.end(), [&](const PublishedWeights& w) {
    return w.model == model && (weights.empty() || w.weights == weights);
  });
  if (it == all.end()) {
    std::vector<std::string> models, versions;
    for (const PublishedWeights& w : all) {
      if (w.model == model) versions.push_back(w.weights);
      if (models.empty() || models.back() != w.model) models.push_back(w.model);
    }
    if (!versions.empty()) refuse_name(kVision + model, weights, versions);
    refuse_name("torchvision", model, models);
  }
  std::string base = env::get("FREIGHT_WEIGHTS_URL", sources().torchvision);
  while (ends_with(base, "/")) base.pop_back();
  LocalWeights found =
      fetch_single(cat(base, "/", it->file), torch_folder(), it->file, {.sha256 = digits_in(it->file)}, options.fetch);
  found.license = sources().torchvision_license;
  found.page = sources().torchvision_page;
  found.model = it->model;
  return found;
}

// A file whose name has digits of its hash is where torch.hub puts it; another one has a folder of its address, as
// files of different addresses may have the same name.
LocalWeights find_address(const std::string& text, const WeightsOptions& options) {
  const size_t mark = text.find('#');
  const std::string address = text.substr(0, mark), fragment = mark == std::string::npos ? "" : text.substr(mark + 1);
  const std::string bare = address.substr(0, address.find('?'));
  const std::string file = bare.substr(bare.rfind('/') + 1);
  if (file.empty() || file.find("://") != std::string::npos || file == "." || file == "..") {
    fail(ErrorKind::usage, excerpt(text), "the address does not end in the name of a file");
  }
  std::string sha256 = digits_in(file);
  std::string folder = torch_folder();
  if (sha256.empty()) {
    const std::string cache = cache_path("weights");
    if (cache.empty()) refuse_unset("FREIGHT_CACHE", ", and there is no folder for downloads");
    const auto* bytes = reinterpret_cast<const uint8_t*>(address.data());
    folder = cat(cache, "/", io::sha256({bytes, address.size()}).substr(0, 16));
  }
  if (!fragment.empty()) {
    constexpr std::string_view kForm = "sha256=";
    sha256 = fragment.substr(std::min(fragment.size(), kForm.size()));
    if (!starts_with(fragment, kForm) || sha256.size() != 64 ||
        sha256.find_first_not_of("0123456789abcdef") != std::string::npos) {
      refuse_text(excerpt(text), "#sha256= and 64 hexadecimal digits after the address", fragment);
    }
  }
  return fetch_single(address, folder, file, {.sha256 = sha256}, options.fetch);
}

// What a text that is no file may mean: the name of a model, of a file or of an enumerator of torchvision, or a
// repository.
std::string nearest_source(const std::string& text) {
  constexpr std::string_view kEnumerator = "_Weights.";
  const size_t at = text.find(kEnumerator);
  const std::string name = lower(text.substr(0, at));
  for (const PublishedWeights& w : sources().published) {
    const bool same = name == w.model || starts_with(name, w.model + "-");
    if (!same) continue;
    const bool version = at != std::string::npos && w.weights == text.substr(at + kEnumerator.size());
    if (at == std::string::npos || version) return kVision + w.model + (version ? "/" + w.weights : "");
  }
  if (text == "DEFAULT" || starts_with(text, "IMAGENET1K") || name == "imagenet") return kVision + "NAME";
  if (starts_with(text, "timm/") || starts_with(text, "huggingface:")) return kHub + text.substr(text.find(':') + 1);
  return "";
}

}  // namespace

const std::vector<PublishedWeights>& published_weights() { return sources().published; }

bool names_weights_source(const std::string& text) {
  return starts_with(text, kVision) || starts_with(text, kHub) || starts_with(text, "https://") ||
         starts_with(text, "http://");
}

LocalWeights find_weights(const std::string& source, const WeightsOptions& options) {
  if (starts_with(source, kVision)) return find_torchvision(source.substr(kVision.size()), options);
  if (starts_with(source, kHub)) {
    return find_hub_weights(parse_hub_name(source.substr(kHub.size())), sources().hugging_face, options);
  }
  if (names_weights_source(source)) return find_address(source, options);
  const std::string near = nearest_source(source);
  fail(ErrorKind::usage, excerpt(source), "expected torchvision:NAME, hf:ORG/NAME or an address",
       near.empty() ? "" : cat("; did you mean ", near, "?"));
}

SourceTerms terms_of(const std::string& source) {
  if (starts_with(source, kVision)) return {sources().torchvision_license, sources().torchvision_page};
  if (!starts_with(source, kHub)) return {};
  const LocalWeights known =
      cached_hub_weights(parse_hub_name(source.substr(kHub.size())), sources().hugging_face).value_or(LocalWeights());
  return {known.license, known.page};
}

std::string weights_path(const std::string& text, const WeightsOptions& options) {
  if (names_weights_source(text)) return find_weights(text, options).path;
  if (const std::string near = nearest_source(text); !near.empty() && !io::file_exists(text)) {
    fail(ErrorKind::data, excerpt(text), "no such file; did you mean ", near, "?");
  }
  return text;
}

}  // namespace freight::store
