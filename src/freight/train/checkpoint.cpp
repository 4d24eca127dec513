// See checkpoint.h.
#include "freight/train/checkpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/threads.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/train/class_weights.h"
#include "freight/train/config_fields.h"
#include "freight/train/run_lock.h"

namespace freight::train {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kCheckpointFormat = "freight-checkpoint-3";
constexpr const char *kModel = "model.safetensors", *kState = "state.safetensors", *kManifest = "manifest.json";
constexpr const char* kAverages = "averages";  // what metadata of the state say that the model holds

[[noreturn]] void damaged_checkpoint(const std::string& file, const std::string& what) {
  fail(ErrorKind::checkpoint, file, what);
}

json finite(double v) { return std::isfinite(v) ? json(v) : json(nullptr); }
double or_else(const json& v, double none) { return v.is_null() ? none : v.get<double>(); }

json to_json(const Evaluation& e) {
  json j = {{"count", e.count}, {"loss", e.loss}, {"top1", nullptr}};
  if (e.top1) j["top1"] = *e.top1;
  if (e.metric) j["metric"] = finite(*e.metric);
  return j;
}

json to_json(const RunPosition& p) {
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
            {"test", to_json(p.test)},
            {"best", {{"step", p.best_step}, {"epoch", p.best_epoch}, {"test", to_json(p.best_test)}}},
            {"improved_score", finite(p.improved_score)},
            {"stale", p.stale},
            {"plateau", p.plateau},
            {"lr_factor", p.lr_factor}};
  if (p.lr) j["lr"] = *p.lr;
  return j;
}

int64_t count_in(const json& j, const char* key, int64_t least) {
  const json& v = j.at(key);
  // A number beyond 64 bits with a sign comes out negative.
  if (!v.is_number_integer() || v.get<int64_t>() < least) {
    fail(ErrorKind::checkpoint, key, "expected an integer of at least ", least, ", got ", excerpt(v.dump()));
  }
  return v.get<int64_t>();
}

Evaluation evaluation_from(const json& j) {
  Evaluation e;
  e.count = count_in(j, "count", 0);
  e.loss = j.at("loss");
  if (const json& top1 = j.at("top1"); !top1.is_null()) e.top1 = top1.get<double>();
  if (const auto metric = j.find("metric"); metric != j.end() && !metric->is_null()) e.metric = metric->get<double>();
  return e;
}

RunPosition place_from(const json& j) {
  RunPosition p;
  p.step = count_in(j, "step", 0);
  p.epoch = count_in(j, "epoch", 1);
  p.batch = count_in(j, "batch", 0);
  p.closed = j.at("closed");
  p.loss_sum = j.at("loss_sum");
  p.right = j.at("right");
  p.seen = count_in(j, "seen", 0);
  p.last_loss = j.at("last_loss");
  if (j.contains("lr")) {
    p.lr = j.at("lr").get<double>();
    if (*p.lr < 0) fail(ErrorKind::checkpoint, "lr", "expected a learning rate of at least 0, got ", *p.lr);
  }
  p.best_score = or_else(j.at("best_score"), p.best_score);
  p.train_seconds = j.at("train_seconds");
  p.test = evaluation_from(j.at("test"));
  if (!j.contains("best")) return p;  // checkpoints of before early stopping
  p.best_step = count_in(j.at("best"), "step", 0);
  p.best_epoch = count_in(j.at("best"), "epoch", 0);
  p.best_test = evaluation_from(j.at("best").at("test"));
  p.improved_score = or_else(j.at("improved_score"), p.improved_score);
  p.stale = count_in(j, "stale", 0);
  p.plateau = count_in(j, "plateau", 0);
  p.lr_factor = j.at("lr_factor");
  if (!(p.lr_factor >= 0)) fail(ErrorKind::checkpoint, "lr_factor", "expected at least 0, got ", p.lr_factor);
  return p;
}

// A configuration says these as a path or as a name.
constexpr std::string Config::*kPaths[] = {&Config::data, &Config::model, &Config::weights, &Config::recipe};

// A checkpoint may be published, so its configuration has no paths of the machine that made it.
Config without_folders(Config c) {
  for (const auto member : kPaths) c.*member = base_name(c.*member);
  return c;
}

// The run's own config.json stays on the machine and has the paths.
void add_folders(Config& c, const std::string& run) {
  const std::string path = run + "/config.json";
  if (!io::file_exists(path)) return;
  Config local;
  try {
    set_from_json(local, io::read_text(path), path);
  } catch (const Error&) {
    return;  // damaged, or of another version: the flags say where things are
  }
  for (const auto member : kPaths) {
    if (base_name(local.*member) == c.*member) c.*member = local.*member;
  }
}

// Throws Error(checkpoint) naming the file that is not as it was written.
Checkpoint load(const std::string& dir) {
  const std::string manifest_path = dir + "/" + kManifest, manifest = io::read_text(manifest_path);
  const auto file = [&](const char* name) {
    const std::string path = dir + "/" + name;
    if (!io::file_exists(path)) damaged_checkpoint(path, "the file is missing");
    const std::shared_ptr<Storage> bytes = io::read_verified(path, hashes_in(manifest, name, manifest_path));
    return std::make_shared<const io::SafeTensors>(
        io::parse_safetensors({static_cast<uint8_t*>(bytes->data()), bytes->size()}, path, bytes));
  };
  Checkpoint c;
  c.dir = dir;
  c.model = file(kModel);
  c.state = file(kState);
  read_state(c.state->metadata, dir + "/" + kState, c);
  add_folders(c.config, run_of(c));
  return c;
}

// Copies the values of all tensors, into those of `old` where they are alike.
void own(io::SafeTensors& file, const io::SafeTensors& old) {
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    Array& array = file.tensors[i].second;
    const Array into = i < old.tensors.size() ? old.tensors[i].second : Array();
    if (!into.defined() || into.dtype() != array.dtype() || into.shape() != array.shape()) {
      array = array.clone();
      continue;
    }
    parallel_copy(into.raw(), array.raw(), array.bytes());
    array = into;
  }
}

// True where two spellings name one file or directory: ./data, and /home/me/data.
bool same_path(const std::string& a, const std::string& b) {
  std::error_code missing;
  return fs::equivalent(a, b, missing) && !missing;
}

// Claims the run's directory, and puts right what a process left that was killed in it.
void hold(const std::string& run, Found& found) {
  std::error_code error;
  if (!fs::is_directory(run + "/checkpoints", error)) return;
  found.lock = std::make_shared<RunLock>(run);
  tidy_checkpoints(run + "/checkpoints");
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
                                               : cat("; the one before is intact: --resume ", shell_word(other))),
                e.where());
  }
}

// The name beside a checkpoint under which it is made or removed.
std::string hidden(const std::string& dir, const char* extension) {
  const fs::path path(dir);
  return (path.parent_path() / cat(".", path.filename().string(), ".", extension)).string();
}

void write_files(const std::string& dir, const Snapshot& snapshot) {
  json manifest = {{"format", kCheckpointFormat}, {"step", snapshot.step}, {"files", json::object()}};
  const io::SafeTensors model = store::sealed(snapshot.model);
  for (const auto& [file, content] : {std::pair(kModel, &model), std::pair(kState, &snapshot.state)}) {
    const io::PartHashes hashes = io::save_hashed_safetensors(dir + "/" + file, *content);
    manifest["files"][file] = {{"bytes", hashes.bytes}, {"part_bytes", hashes.part}, {"xxh3_128", hashes.parts}};
  }
  io::write_file_atomic(dir + "/" + kManifest, std::string_view(manifest.dump(2) + "\n"));
  io::sync_directory(dir);
}

// Gives a directory the name of another, or of none. The two change names at once where the file system can do that;
// else the old one steps aside, and tidy_checkpoints puts it back should the process end in between.
void put_in_place(const std::string& fresh, const std::string& dir) {
  std::error_code ignored;
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, dir.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(fresh, ignored);
    return;
  }
  const std::string old = hidden(dir, "old");
  if (errno != ENOENT) fs::rename(dir, old);
  try {
    fs::rename(fresh, dir);
  } catch (...) {
    fs::rename(old, dir, ignored);
    throw;
  }
  fs::remove_all(old, ignored);
}

}  // namespace

io::PartHashes hashes_in(const std::string& manifest, const std::string& file, const std::string& path) {
  const json j = io::parse_json<json>(manifest, path, ErrorKind::checkpoint);
  const std::string format = j.is_object() && j.contains("format") && j["format"].is_string() ? j["format"] : "";
  if (format != kCheckpointFormat) {
    damaged_checkpoint(path, cat("not the manifest of a checkpoint: expected an object with format ", kCheckpointFormat,
                                 ", got format `", excerpt(format), "`"));
  }
  io::PartHashes hashes;
  try {
    const json& said = j.at("files").at(file);
    hashes.bytes = static_cast<uint64_t>(count_in(said, "bytes", 0));
    hashes.part = static_cast<uint64_t>(count_in(said, "part_bytes", 1));
    hashes.parts = said.at("xxh3_128").get<std::vector<std::string>>();
  } catch (const std::exception& e) {
    damaged_checkpoint(path, cat("has no valid entry for ", file, ": ", io::json_fault(e)));
  }
  return hashes;
}

void read_state(const std::map<std::string, std::string>& metadata, const std::string& path, Checkpoint& out) {
  try {
    out.place = place_from(io::parse_json<json>(metadata.at("place"), path, ErrorKind::checkpoint));
    set_from_json(out.config, metadata.at("config"), path);
    const std::string& fingerprint = metadata.at("fingerprint");
    const std::optional<uint64_t> number = parse_number<uint64_t>(fingerprint);
    if (!number)
      fail(ErrorKind::checkpoint, "fingerprint", "expected a whole number, got '", excerpt(fingerprint), "'");
    out.fingerprint = *number;
    out.averaged = metadata.contains("model") && metadata.at("model") == kAverages;
  } catch (const std::exception& e) {
    damaged_checkpoint(path, cat("not the state of a run: ", e.what()));
  }
}

namespace {

void take_given(Snapshot& s, const RunState& state) {
  for (const nn::NamedArray& a : state.given) s.state.tensors.emplace_back(a.name, a.array);
  s.given = state.given.size();
}

Snapshot kept_values(const store::Bundle& bundle, const RunState& state) {
  Snapshot s{state.place.step, store::to_file(bundle), {}};
  s.state.metadata = {{"place", to_json(state.place).dump()},
                      {"config", to_json(without_folders(state.config))},
                      {"fingerprint", cat(state.fingerprint)}};
  if (state.averaged) s.state.metadata["model"] = kAverages;
  for (const nn::NamedVariable& v : state.variables) s.state.tensors.emplace_back(v.name, v.variable.array());
  return s;
}

}  // namespace

Snapshot values_of(const store::Bundle& bundle, const RunState& state) {
  Snapshot s = kept_values(bundle, state);
  take_given(s, state);
  return s;
}

Snapshot snapshot(const store::Bundle& bundle, const RunState& state, Snapshot reuse) {
  Snapshot s = kept_values(bundle, state);
  own(s.model, reuse.model);
  own(s.state, reuse.state);
  take_given(s, state);
  return s;
}

void save_checkpoint(const std::string& dir, const Snapshot& snapshot) {
  const std::string parent = fs::path(dir).parent_path().string(), fresh = hidden(dir, "new");
  const auto make = [](const std::string& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail(ErrorKind::runtime, path, "cannot make: ", error.message());
  };
  make(parent);
  tidy_checkpoints(parent);
  make(fresh);
  try {
    write_files(fresh, snapshot);
    put_in_place(fresh, dir);
    io::sync_directory(parent);
  } catch (...) {  // of a full disk, say, which this directory would keep full
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
}

void remove_checkpoint(const std::string& dir) {
  const std::string gone = hidden(dir, "gone");
  std::error_code error;
  fs::remove_all(gone, error);
  fs::rename(dir, gone, error);
  if (error) fail(ErrorKind::runtime, dir, "cannot remove: ", error.message());
  // A part that cannot be removed now is tidied up at the next save.
  fs::remove_all(gone, error);
}

void tidy_checkpoints(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> left;
  for (const auto& e : fs::directory_iterator(folder, error)) {
    if (starts_with(e.path().filename().string(), ".step-")) left.push_back(e.path());
  }
  for (const fs::path& path : left) {
    if (path.extension() == ".old") {
      const fs::path name = path.parent_path() / path.stem().string().substr(1);
      if (!fs::exists(name, error)) {
        fs::rename(path, name, error);
        continue;
      }
    }
    fs::remove_all(path, error);
  }
}

Found find_checkpoint(const std::string& resume, const std::string& output_dir) {
  Found found;
  if (resume == "auto") {
    hold(output_dir, found);
    for (const std::string& path : checkpoints_of(output_dir)) {
      try {
        if (!has_manifest(path)) continue;
        found.checkpoint = load(path);
        break;
      } catch (const Error& e) {
        found.warnings.push_back(cat("skipped: ", e.what()));
      }
    }
    return found;
  }
  std::error_code error;
  std::string dir = fs::is_directory(resume, error) ? resume : fs::path(resume).parent_path().string();
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  if (!fs::exists(resume, error)) fail(ErrorKind::usage, "--resume", "there is no ", resume);
  const bool of_checkpoint = has_manifest(dir);
  if (of_checkpoint) dir = fs::canonical(dir).string();
  const std::string run = of_checkpoint ? fs::path(dir).parent_path().parent_path().string() : dir;
  if (output_dir.empty() || same_path(output_dir, run)) hold(run, found);
  const std::vector<std::string> all = of_checkpoint ? std::vector<std::string>{dir} : checkpoints_of(dir);
  if (!all.empty() && has_manifest(all.front())) {
    found.checkpoint = load_or_offer(all.front());
    return found;
  }
  if (!all.empty()) {
    damaged_checkpoint(all.front(),
                       "has no manifest.json: it contains weights only, from which --weights "
                       "starts a new run");
  }
  fail(ErrorKind::usage, "--resume", "there is no checkpoint to resume from in ", resume,
       io::file_exists(dir + "/" + kModel)
           ? ": it contains weights only; --weights starts a new run from them"
           : "; pass the path of a run that saved one, or --resume auto, which starts over if there is none");
}

int64_t step_of(const std::string& checkpoint) {
  const std::string name = fs::path(checkpoint).filename().string();
  std::string_view number = std::string_view(name).substr(std::min(name.size(), std::string_view("step-").size()));
  return take_number<int64_t>(number).value_or(0);
}

std::vector<std::string> checkpoints_of(const std::string& run) {
  std::vector<std::pair<int64_t, std::string>> all;
  std::error_code error;
  for (const auto& e : fs::directory_iterator(run + "/checkpoints", error)) {
    const std::string name = e.path().filename().string();
    if (starts_with(name, "step-")) all.emplace_back(step_of(name), e.path().string());
  }
  std::sort(all.rbegin(), all.rend());
  std::vector<std::string> paths;
  for (auto& [step, path] : all) paths.push_back(std::move(path));
  return paths;
}

std::string run_of(const Checkpoint& c) { return fs::path(c.dir).parent_path().parent_path().string(); }

void restore(Checkpoint& c, models::Model& model, const std::vector<nn::NamedVariable>& variables,
             const models::Model* in_files) {
  const std::string path = c.dir + "/" + kState;
  FREIGHT_CHECK(c.model && c.state, "a checkpoint is restored once");
  const std::string weights = c.dir + "/" + kModel;
  const models::Model& now = in_files ? *in_files : model;
  if (const auto spec = c.model->metadata.find("spec"); spec != c.model->metadata.end() && models::has_spec(now)) {
    // Weights may fit a net of other activations or strides just as well.
    if (!models::is_of_spec(now, spec->second, weights)) {
      fail(ErrorKind::usage, "--model", "cannot change when a run resumes: the network is not that of ", c.dir,
           ", whose model.json shows it; --weights starts a new run from its weights");
    }
  }
  const auto held = std::move(c.state);
  const io::SafeTensors& file = *held;
  for (const nn::NamedVariable& v : variables) {
    const Array* stored = file.find(v.name);
    if (!stored) damaged_checkpoint(path, cat("has no ", v.name, ", which this run needs"));
    if (stored->dtype() != v.variable.type().dtype || stored->shape() != v.variable.shape()) {
      damaged_checkpoint(path,
                         cat(v.name, ": expected ", v.variable.type(), ", got ", stored->dtype(), stored->shape()));
    }
  }
  for (const auto& stored : file.tensors) {
    const bool known =
        std::any_of(variables.begin(), variables.end(), [&](const auto& v) { return v.name == stored.first; });
    if (!known) damaged_checkpoint(path, cat("holds ", stored.first, ", which this run does not have"));
  }
  store::load_weights(model, *c.model, weights);
  c.model.reset();
  for (const nn::NamedVariable& v : variables) v.variable.set(*file.find(v.name));
}

void need_same_run(const Checkpoint& c, const Config& asked) {
  Config config = asked;
  settle_class_weight(config);
  for (const Field& f : config_fields()) {
    if (!*f.key || f.may_change) continue;
    std::visit(
        [&](auto member) {
          const auto& before = c.config.*member;
          const auto& now = config.*member;
          if (before == now) return;
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(now)>, std::string>) {
            // The checkpoint may have been moved here from another machine; what is behind the name is compared apart.
            if (same_path(before, now) || (base_name(now) == before && now != before)) return;
          }
          fail(ErrorKind::usage, f.flag(), "cannot change when a run resumes: got ", now, ", ", c.dir,
               " was created with ", before, "; --weights starts a new run from its weights");
        },
        f.member);
  }
}

}  // namespace freight::train
