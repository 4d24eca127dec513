// See checkpoint.h.
#include "freight/train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "freight/base/error.h"
#include "freight/data/catalog.h"
#include "freight/io/file.h"
#include "freight/train/config_fields.h"

namespace freight::train {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kFormat = "freight-checkpoint-1";
constexpr const char *kModel = "model.safetensors", *kState = "state.safetensors", *kManifest = "manifest.json";

[[noreturn]] void damaged(const std::string& file, const std::string& what) { fail(ErrorKind::checkpoint, file, what); }

json finite(double v) { return std::isfinite(v) ? json(v) : json(nullptr); }
double or_else(const json& v, double none) { return v.is_null() ? none : v.get<double>(); }

json to_json(const Place& p) {
  json j = {{"step", p.step},
            {"epoch", p.epoch},
            {"batch", p.batch},
            {"closed", p.closed},
            {"loss_sum", p.loss_sum},
            {"right", p.right},
            {"seen", p.seen},
            {"last_loss", p.last_loss},
            {"best_score", finite(p.best_score)},
            {"train_seconds", p.train_seconds},
            {"test", {{"count", p.test.count}, {"loss", p.test.loss}, {"top1", nullptr}}}};
  if (p.test.top1) j["test"]["top1"] = *p.test.top1;
  return j;
}

Place place_from(const json& j) {
  Place p;
  p.step = j.at("step");
  p.epoch = j.at("epoch");
  p.batch = j.at("batch");
  p.closed = j.at("closed");
  p.loss_sum = j.at("loss_sum");
  p.right = j.at("right");
  p.seen = j.at("seen");
  p.last_loss = j.at("last_loss");
  p.best_score = or_else(j.at("best_score"), p.best_score);
  p.train_seconds = j.at("train_seconds");
  p.test.count = j.at("test").at("count");
  p.test.loss = j.at("test").at("loss");
  if (const json& top1 = j.at("test").at("top1"); !top1.is_null()) p.test.top1 = top1.get<double>();
  return p;
}

json read_manifest(const std::string& dir) {
  const std::string path = dir + "/" + kManifest;
  const json j = json::parse(io::read_text(path), nullptr, false);
  if (!j.is_object() || j.value("format", "") != kFormat || !j.contains("files") || !j["files"].is_object()) {
    damaged(path, cat("not the manifest of a checkpoint: need an object with format ", kFormat));
  }
  return j;
}

// Throws Error(checkpoint) naming the file that is not as it was written.
Checkpoint load(const std::string& dir) {
  const json manifest = read_manifest(dir);
  for (const char* name : {kModel, kState}) {
    const std::string path = dir + "/" + name;
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    if (error) damaged(path, "the file is missing");
    if (!manifest["files"].contains(name)) damaged(dir + "/" + kManifest, cat("says nothing of ", name));
    const json& said = manifest["files"][name];
    if (bytes != said.value("bytes", uint64_t{0})) {
      damaged(path, cat("size differs: got ", bytes, " bytes, the manifest has ", said.value("bytes", uint64_t{0})));
    }
    if (const std::string hash = data::sha256_of(path); hash != said.value("sha256", "")) {
      damaged(path, cat("SHA-256 differs: got ", hash, ", the manifest has ", said.value("sha256", "")));
    }
  }
  const std::string path = dir + "/" + kState;
  const io::SafeTensors file = io::load_safetensors(path);
  Checkpoint c;
  c.dir = dir;
  try {
    c.place = place_from(json::parse(file.metadata.at("place")));
    set_from_json(c.config, file.metadata.at("config"), path);
    c.fingerprint = std::stoull(file.metadata.at("fingerprint"));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    damaged(path, cat("not the state of a run: ", e.what()));
  }
  return c;
}

bool has_manifest(const std::string& dir) { return io::file_exists(dir + "/" + kManifest); }

// The newest intact one among those that are older than `dir`, or "".
std::string intact_before(const std::string& dir) {
  bool older = false;
  for (const std::string& path : checkpoints_of(fs::path(dir).parent_path().parent_path().string())) {
    if (older && has_manifest(path)) {
      try {
        load(path);
        return path;
      } catch (const Error&) {
        continue;
      }
    }
    older = older || fs::path(path).filename() == fs::path(dir).filename();
  }
  return {};
}

Checkpoint load_or_offer(const std::string& dir) {
  try {
    return load(dir);
  } catch (const Error& e) {
    const std::string other = intact_before(dir);
    throw Error(e.kind(), e.op(),
                cat(e.message(), other.empty() ? "; no earlier checkpoint of the run is intact"
                                               : cat("; the one before is intact: --resume ", other)),
                e.where());
  }
}

}  // namespace

Snapshot snapshot(const Bundle& bundle, const RunState& state) {
  Snapshot s{state.place.step, to_file(bundle), {}};
  s.state.metadata = {{"place", to_json(state.place).dump()},
                      {"config", to_json(state.config)},
                      {"fingerprint", cat(state.fingerprint)}};
  for (auto& [name, array] : s.model.tensors) array = array.clone();
  for (const nn::NamedVariable& v : state.variables) s.state.tensors.emplace_back(v.name, v.variable.array().clone());
  return s;
}

void save_checkpoint(const std::string& dir, const Snapshot& snapshot) {
  const fs::path target(dir);
  const std::string parent = target.parent_path().string(), name = target.filename().string();
  const std::string fresh = cat(parent, "/.", name, ".new"), old = cat(parent, "/.", name, ".old");
  fs::create_directories(parent);
  for (const auto& e : fs::directory_iterator(parent)) {  // what a process left that was killed here
    if (starts_with(e.path().filename().string(), ".step-")) fs::remove_all(e.path());
  }
  fs::create_directories(fresh);
  io::save_safetensors(fresh + "/" + kModel, snapshot.model);
  io::save_safetensors(fresh + "/" + kState, snapshot.state);
  json manifest = {{"format", kFormat}, {"step", snapshot.step}, {"files", json::object()}};
  for (const char* part : {kModel, kState}) {
    const std::string path = fresh + "/" + part;
    manifest["files"][part] = {{"bytes", fs::file_size(path)}, {"sha256", data::sha256_of(path)}};
  }
  io::write_file_atomic(fresh + "/" + kManifest, std::string_view(manifest.dump(2) + "\n"));
  io::sync_directory(fresh);
  std::error_code ignored;
  if (fs::exists(target)) fs::rename(target, old);
  fs::rename(fresh, target);
  io::sync_directory(parent);
  fs::remove_all(old, ignored);
}

std::optional<Checkpoint> find_checkpoint(const std::string& resume, const std::string& output_dir,
                                          std::vector<std::string>* notes) {
  if (resume == "auto") {
    for (const std::string& path : checkpoints_of(output_dir)) {
      try {
        if (has_manifest(path)) return load(path);
      } catch (const Error& e) {
        if (notes) notes->push_back(cat("passed over: ", e.what()));
      }
    }
    return std::nullopt;
  }
  std::error_code error;
  std::string dir = fs::is_directory(resume, error) ? resume : fs::path(resume).parent_path().string();
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  if (!fs::exists(resume, error)) fail(ErrorKind::usage, "--resume", "there is no ", resume);
  if (has_manifest(dir)) return load_or_offer(fs::canonical(dir).string());
  const std::vector<std::string> all = checkpoints_of(dir);
  if (!all.empty() && has_manifest(all.front())) return load_or_offer(all.front());
  fail(ErrorKind::checkpoint, resume, "no checkpoint to go on from",
       all.empty() && !io::file_exists(dir + "/" + kModel)
           ? ""
           : "; what lies there are weights alone: --weights starts a new run from them");
}

std::vector<std::string> checkpoints_of(const std::string& run) {
  std::vector<std::pair<int64_t, std::string>> all;
  std::error_code error;
  for (const auto& e : fs::directory_iterator(run + "/checkpoints", error)) {
    const std::string name = e.path().filename().string();
    if (starts_with(name, "step-")) all.emplace_back(std::atoll(name.c_str() + 5), e.path().string());
  }
  std::sort(all.rbegin(), all.rend());
  std::vector<std::string> paths;
  for (auto& [step, path] : all) paths.push_back(std::move(path));
  return paths;
}

std::string run_of(const Checkpoint& c) { return fs::path(c.dir).parent_path().parent_path().string(); }

void restore(const Checkpoint& c, models::Model& model, const std::vector<nn::NamedVariable>& variables) {
  load_weights(model, c.dir + "/" + kModel);
  const std::string path = c.dir + "/" + kState;
  const io::SafeTensors file = io::load_safetensors(path);
  for (const nn::NamedVariable& v : variables) {
    const Array* stored = file.find(v.name);
    if (!stored) damaged(path, cat("has no ", v.name, ", which this run needs"));
    if (stored->dtype() != v.variable.type().dtype || stored->shape() != v.variable.shape()) {
      damaged(path, cat(v.name, ": got ", stored->dtype(), stored->shape(), ", need ", v.variable.type()));
    }
    v.variable.set(*stored);
  }
  if (file.tensors.size() == variables.size()) return;
  for (const auto& stored : file.tensors) {
    const bool known =
        std::any_of(variables.begin(), variables.end(), [&](const auto& v) { return v.name == stored.first; });
    if (!known) damaged(path, cat("holds ", stored.first, ", which this run does not have"));
  }
}

void need_same_run(const Checkpoint& c, const Config& config) {
  for (const Field& f : config_fields()) {
    if (!*f.key || f.may_change) continue;
    std::visit(
        [&](auto member) {
          if (c.config.*member == config.*member) return;
          fail(ErrorKind::usage, f.flag(), "cannot change when a run goes on: got ", config.*member, ", ", c.dir,
               " was made with ", c.config.*member, "; --weights starts a new run from its weights");
        },
        f.member);
  }
}

}  // namespace freight::train
