// See hugging_face_internal.h. The cache has the layout of huggingface_hub, so that both find what the other left:
//   models--ORG--NAME/refs/REVISION        the commit of a branch or tag
//   models--ORG--NAME/snapshots/COMMIT/FILE -> ../../blobs/HASH
//   models--ORG--NAME/blobs/HASH           a file under its SHA-256, or for small ones Git's hash
#include "freight/store/hugging_face_internal.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/usage.h"
#include "freight/io/digest.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::store {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kSha256Digits = 64, kGitDigits = 40;

bool is_hex(const std::string& text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// A part of a path or address that stays in its folder.
bool is_plain(const std::string& part) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+ ";
  return !part.empty() && part != "." && part != ".." && part.find_first_not_of(kAllowed) == std::string::npos;
}

std::string encoded(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ') {
      out += "%20";
    } else if (c == '+') {
      out += "%2B";
    } else {
      out += c;
    }
  }
  return out;
}

bool is_index(const std::string& file) { return ends_with(file, ".index.json"); }

// The files of weights that repositories usually have, the preferred first.
const std::vector<std::string>& usual_files() {
  static const std::vector<std::string> kFiles = {"model.safetensors", "model.safetensors.index.json",
                                                  "pytorch_model.bin", "pytorch_model.bin.index.json"};
  return kFiles;
}

// The file of weights among those of a repository; "" where none is the obvious one.
std::string chosen_file(const std::vector<std::string>& files) {
  for (const std::string& usual : usual_files()) {
    if (std::find(files.begin(), files.end(), usual) != files.end()) return usual;
  }
  for (const char* ending : {".safetensors", ".pth", ".pt", ".bin"}) {
    std::vector<std::string> fitting;
    for (const std::string& f : files) {
      if (ends_with(f, ending)) fitting.push_back(f);
    }
    if (fitting.size() == 1) return fitting[0];
    if (!fitting.empty()) return "";
  }
  return "";
}

// The names of the files that an index lists.
std::vector<std::string> files_of_index(const std::string& path) {
  const Json index = io::read_json<Json>(path, ErrorKind::checkpoint);
  std::set<std::string> names;
  if (const auto map = index.find("weight_map"); map != index.end() && map->is_object()) {
    for (const auto& [name, file] : map->items()) {
      if (!file.is_string() || !is_plain(file)) fail(ErrorKind::checkpoint, path, "weight_map: not the name of a file");
      names.insert(file);
    }
  }
  return {names.begin(), names.end()};
}

// "license: apache-2.0" at the head of a README.md; "" where it is not stated.
std::string license_in(const std::string& readme) {
  if (!io::file_exists(readme)) return "";
  std::string license, name;
  const std::vector<std::string> lines = split(io::read_text(readme), '\n');
  for (size_t i = 1; i < lines.size() && starts_with(lines[0], "---") && !starts_with(lines[i], "---"); ++i) {
    for (auto [key, value] : {std::pair<std::string_view, std::string*>{"license: ", &license},
                              std::pair<std::string_view, std::string*>{"license_name: ", &name}}) {
      if (starts_with(lines[i], key)) *value = printable(lines[i].substr(key.size()));
    }
  }
  return name.empty() ? license : name;
}

class Repository {
 public:
  Repository(const HubName& name, const std::string& address, const WeightsOptions& options)
      : name_(name), options_(options), token_(env::get("HF_TOKEN")) {
    endpoint_ = env::get("HF_ENDPOINT", address);
    while (ends_with(endpoint_, "/")) endpoint_.pop_back();
    if (!starts_with(endpoint_, "https://") && !starts_with(endpoint_, "http://")) {
      refuse_text("HF_ENDPOINT", "an address, https://...", endpoint_);
    }
    std::string cache = env::get("HF_HUB_CACHE");
    if (cache.empty()) {
      std::string home = env::get("HF_HOME");
      if (home.empty()) home = env::get("XDG_CACHE_HOME", env::get("HOME") + "/.cache") + "/huggingface";
      cache = home + "/hub";
    }
    folder_ = cache + "/models--";
    for (const char c : name_.repository) folder_ += c == '/' ? std::string("--") : std::string(1, c);
    while (!token_.empty() && (token_.back() == '\n' || token_.back() == ' ')) token_.pop_back();
    if (token_.find_first_of("\r\n") != std::string::npos) fail(ErrorKind::usage, "HF_TOKEN", "is not one line");
  }

  std::string page() const { return cat(endpoint_, "/", name_.repository); }

  // What the cache has; nothing where a file is missing or damaged, which `why` then says.
  std::optional<LocalWeights> cached(std::string& why) const {
    std::string commit = name_.revision;
    if (const std::string ref = cat(folder_, "/refs/", name_.revision); io::file_exists(ref)) {
      commit = io::read_text(ref);
      while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.pop_back();
    }
    const std::string snapshot = cat(folder_, "/snapshots/", commit);
    if (!is_plain(commit) || !io::file_exists(snapshot)) return {};
    std::vector<std::string> present;
    for (const auto& e : fs::directory_iterator(snapshot)) {
      if (fs::exists(e.path())) present.push_back(e.path().filename());  // not a link to nothing
    }
    const std::string file = name_.file.empty() ? chosen_file(present) : name_.file;
    if (file.empty() || !fs::exists(cat(snapshot, "/", file))) return {};
    LocalWeights found = described(snapshot, file);
    for (const WeightsFile& f : found.files) {
      // A blob of 64 digits is named by its SHA-256.
      std::error_code ignored;
      const std::string blob = fs::read_symlink(f.path, ignored).filename();
      const bool missing = f.bytes < 0;
      if (!missing && (!is_hex(blob, kSha256Digits) || blob == f.sha256)) continue;
      why =
          missing ? cat(f.path, " is missing") : cat(f.path, ": SHA-256 differs: expected ", blob, ", got ", f.sha256);
      return {};
    }
    found.path = cat(snapshot, "/", file);
    return found;
  }

  [[noreturn]] void refuse_offline(const std::string& why) const {
    fail(ErrorKind::data, label(), why.empty() ? cat("is not in the cache ", folder_) : why, ", and HF_HUB_OFFLINE is ",
         env::get("HF_HUB_OFFLINE"), ": ", by_hand());
  }

  // Nothing where no connection can be made: `why` says the reason then.
  std::optional<LocalWeights> downloaded(std::string& why) const {
    const std::string address =
        cat(endpoint_, "/api/models/", name_.repository, "/revision/", encoded(name_.revision), "?blobs=true");
    const io::Document reply = io::fetch_document(address, fetch());
    if (reply.status == 0) {
      why = cat(address, ": ", reply.fault);
      return {};
    }
    if (!reply.fault.empty()) fail(ErrorKind::data, label(), reply.fault, " (", address, ")");
    const Json about = io::parse_json<Json>(reply.body, address, ErrorKind::data);
    try {
      return download(about);
    } catch (const Json::exception& e) {
      fail(ErrorKind::data, address, "not the reply of a model hub: ", io::json_fault(e));
    }
  }

  [[noreturn]] void refuse_unconnected(const std::string& why) const {
    fail(ErrorKind::data, label(), "download failed: ", why, "; without a connection: ", by_hand());
  }

 private:
  std::string label() const {
    return cat("hf:", name_.repository, name_.revision == "main" ? "" : "@" + name_.revision,
               name_.file.empty() ? "" : "/" + name_.file);
  }
  std::string usual() const { return name_.file.empty() ? usual_files()[0] : name_.file; }
  std::string by_hand() const {
    return cat("download ", endpoint_, "/", name_.repository, "/resolve/", name_.revision, "/", encoded(usual()),
               " elsewhere and put ", usual(), " into ", folder_, "/snapshots/", name_.revision);
  }
  io::FetchOptions fetch() const {
    io::FetchOptions f = options_.fetch;
    if (!token_.empty()) f.headers.push_back("Authorization: Bearer " + token_);
    f.meaning = [this](long status) -> std::string {
      constexpr long kUnauthorized = 401, kForbidden = 403, kNotFound = 404;
      if (status == kUnauthorized && !token_.empty()) {
        return cat("HF_TOKEN was rejected; make a new one at ", endpoint_, "/settings/tokens");
      }
      if (status == kUnauthorized) {
        return "there is no such repository, or it is private or gated: check the name, or set HF_TOKEN";
      }
      if (status == kForbidden) {
        return cat("access is denied: accept the terms at ", page(), " and set HF_TOKEN to a token of that account");
      }
      return status == kNotFound ? "there is no such repository, revision or file" : "";
    };
    f.advice = by_hand();
    return f;
  }

  // `about`: the hub's reply, which lists commit and files.
  LocalWeights download(const Json& about) const {
    const std::string commit = about.at("sha");
    if (!is_hex(commit, kGitDigits)) fail(ErrorKind::data, label(), "the commit is not 40 digits: ", excerpt(commit));
    std::vector<std::string> files;
    for (const Json& s : about.at("siblings")) files.push_back(s.at("rfilename"));
    const std::string file = name_.file.empty() ? chosen_file(files) : name_.file;
    if (file.empty()) {
      std::erase_if(files, [](const std::string& f) {
        return !ends_with(f, ".safetensors") && !ends_with(f, ".bin") && !ends_with(f, ".pth") && !ends_with(f, ".pt");
      });
      constexpr size_t kMost = 10;
      const size_t more = files.size() > kMost ? files.size() - kMost : 0;
      files.resize(files.size() - more);
      if (files.empty()) fail(ErrorKind::data, label(), "the repository has no weights (safetensors, .bin, .pth, .pt)");
      fail(ErrorKind::data, label(), "has several files of weights: name one, like hf:", name_.repository, "/",
           printable(files[0]), " (there are ", printable(join(files, ", ")), more > 0 ? ", ..." : "", ")");
    }
    const std::string snapshot = cat(folder_, "/snapshots/", commit);
    get(about, commit, file);
    if (is_index(file)) {
      const fs::path inside = fs::path(file).parent_path();
      for (const std::string& part : files_of_index(cat(snapshot, "/", file)))
        get(about, commit, (inside / part).string());
    }
    if (std::find(files.begin(), files.end(), "README.md") != files.end()) get(about, commit, "README.md");
    if (commit != name_.revision) {
      const fs::path ref = cat(folder_, "/refs/", name_.revision);
      fs::create_directories(ref.parent_path());
      io::write_file_atomic(ref.string(), std::string_view(commit));
    }
    LocalWeights found = described(snapshot, file);
    found.path = cat(snapshot, "/", file);
    return found;
  }

  // Downloads a file to its blob and links it in the snapshot.
  void get(const Json& about, const std::string& commit, const std::string& file) const {
    const auto& all = about.at("siblings");
    const auto it = std::find_if(all.begin(), all.end(), [&](const Json& s) { return s.at("rfilename") == file; });
    if (it == all.end()) fail(ErrorKind::data, label(), "the repository has no file ", excerpt(file));
    const std::vector<std::string> parts = split(file, '/');
    if (!std::all_of(parts.begin(), parts.end(), is_plain)) {
      fail(ErrorKind::data, label(), "refused: the path ", excerpt(file),
           " leaves the folder, or has unusual characters");
    }
    const bool large = it->contains("lfs") && it->at("lfs").is_object();
    const std::string hash = large ? it->at("lfs").at("sha256") : it->at("blobId");
    if (!is_hex(hash, large ? kSha256Digits : kGitDigits)) fail(ErrorKind::data, label(), file, " has no hash");
    const std::string blob = cat(folder_, "/blobs/", hash);
    const fs::path link = cat(folder_, "/snapshots/", commit, "/", file);
    std::error_code error;
    fs::create_directories(folder_ + "/blobs", error);
    if (!error) fs::create_directories(link.parent_path(), error);
    if (error) fail(ErrorKind::runtime, folder_, "cannot make the directory: ", error.message());
    const int64_t bytes = large ? it->at("lfs").value("size", int64_t{0}) : it->value("size", int64_t{0});
    io::fetch_file({address_of(commit, file)}, blob, {.sha256 = large ? hash : "", .bytes = bytes}, fetch());
    const fs::path target = fs::path(blob).lexically_relative(link.parent_path());
    if (fs::read_symlink(link, error) == target) return;
    fs::remove(link, error);
    fs::create_symlink(target, link, error);
    if (error && !fs::exists(link)) fail(ErrorKind::runtime, link.string(), "cannot link: ", error.message());
  }

  std::string address_of(const std::string& commit, const std::string& file) const {
    return cat(endpoint_, "/", name_.repository, "/resolve/", commit, "/", encoded(file));
  }

  // The weights in a snapshot. A file that is missing has -1 bytes.
  LocalWeights described(const std::string& snapshot, const std::string& file) const {
    LocalWeights found{.license = license_in(snapshot + "/README.md"), .page = page()};
    const std::string commit = fs::path(snapshot).filename();
    std::vector<std::string> files{file};
    const fs::path inside = fs::path(file).parent_path();
    if (is_index(file)) {
      for (const std::string& part : files_of_index(cat(snapshot, "/", file)))
        files.push_back((inside / part).string());
    }
    for (const std::string& f : files) {
      const std::string path = cat(snapshot, "/", f);
      const bool here = fs::exists(path);
      found.files.push_back({path, address_of(commit, f), here ? io::sha256_of(path) : "",
                             here ? static_cast<int64_t>(fs::file_size(path)) : -1});
    }
    return found;
  }

  HubName name_;
  WeightsOptions options_;
  std::string token_, endpoint_, folder_;
};

bool offline() {
  const std::string text = lower(env::get("HF_HUB_OFFLINE"));
  return text == "1" || text == "true" || text == "yes" || text == "on";
}

}  // namespace

HubName parse_hub_name(const std::string& text) {
  std::vector<std::string> parts = split(text, '/');
  HubName name;
  // hf:ORG/NAME@REVISION; the first models of the hub have no organization: hf:gpt2.
  const auto revision = [&](std::string& part) {
    const size_t at = part.find('@');
    if (at == std::string::npos) return;
    name.revision = part.substr(at + 1);
    part.resize(at);
  };
  for (size_t i = 0; i < parts.size() && i < 2; ++i) revision(parts[i]);
  for (size_t i = 0; i < parts.size(); ++i) {
    (i < 2 ? name.repository : name.file) += cat(i == 0 || i == 2 ? "" : "/", parts[i]);
  }
  parts.push_back(name.revision);
  if (!std::all_of(parts.begin(), parts.end(), is_plain)) {
    fail(ErrorKind::usage, cat("hf:", excerpt(text)), "expected hf:ORG/NAME, hf:ORG/NAME@REVISION or hf:ORG/NAME/FILE");
  }
  return name;
}

std::optional<LocalWeights> cached_hub_weights(const HubName& name, const std::string& address) {
  std::string damage;
  return Repository(name, address, {}).cached(damage);
}

LocalWeights find_hub_weights(const HubName& name, const std::string& address, const WeightsOptions& options) {
  const Repository repository(name, address, options);
  std::string damage, why;
  const std::optional<LocalWeights> cached = repository.cached(damage);
  if (cached && (options.prefer_cache || offline())) return *cached;
  if (offline()) repository.refuse_offline(damage);
  if (const std::optional<LocalWeights> fresh = repository.downloaded(why)) return *fresh;
  if (cached) return *cached;
  repository.refuse_unconnected(why);
}

}  // namespace freight::store
