// See xgboost_library.h.
#include "freight/tables/xgboost_library.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/python_packages.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::tables {

namespace {

constexpr XgboostVersion kOldest = {1, 7, 0};       // the first whose histogram method splits columns of categories
constexpr XgboostVersion kCollectives = {2, 1, 0};  // the first with a tracker in its C interface
constexpr const char* kInstall =
    "install one by apt-get install libxgboost0, or a newer one by pip install xgboost-cpu into the active Python "
    "environment; or name its libxgboost.so in FREIGHT_XGBOOST (or by --xgboost of train)";
constexpr const char *kVariable = "FREIGHT_XGBOOST", *kWithout = "none";

// The names to load, in order.
std::vector<std::string> candidates(const std::string& named) {
  if (!named.empty()) return {named.find('/') == std::string::npos ? "./" + named : named};
  constexpr const char* kInPackages = "xgboost/lib/libxgboost.so";
  std::vector<std::string> paths = files_in(active_python_packages(), kInPackages);
  paths.insert(paths.end(), {"libxgboost.so", "libxgboost.so.0"});
  const std::vector<std::string> others = files_in(other_python_packages(), kInPackages);
  paths.insert(paths.end(), others.begin(), others.end());
  return paths;
}

// XGBoost's texts have the form "[12:00:00] FILE:LINE: WORDS", followed by a stack trace; this returns the words.
std::string words_of(std::string text) {
  text = text.substr(0, text.find("\nStack trace"));
  if (starts_with(text, "[")) {
    if (const size_t end = text.find("] "); end != std::string::npos) text = text.substr(end + 2);
  }
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// The library that the user names; empty: it is searched for.
std::string named_library(const std::string& path) { return path.empty() ? env::get(kVariable) : path; }

thread_local std::string t_unknown_parameter;

void heard(const char* text) {
  const std::string words = words_of(text);
  // A warning by validate_parameters, which is off by default.
  if (words.find("are not used") != std::string::npos) t_unknown_parameter = words;
  logging::warn(cat("XGBoost: ", words));
}

}  // namespace

std::string XgboostVersion::text() const { return cat(major, ".", minor, ".", patch); }

Xgboost::Xgboost(Loaded<XgboostFunctions> loaded) : functions_(loaded.functions), path_(loaded.library.path) {
  look_up(loaded.library, "", {FREIGHT_XGBOOST_COLLECTIVES(FREIGHT_SYMBOL)}, &collectives_, "");
  missing_function_ = loaded.library.why;
  functions_.XGBoostVersion(&version_.major, &version_.minor, &version_.patch);
  const char* built = nullptr;
  check(functions_.XGBuildInfo(&built), "what it was built with");
  const auto info = io::try_parse_json<nlohmann::json>(built);
  cuda_ = info && info->is_object() && info->value("USE_CUDA", false);
}

const XgboostCollectives& Xgboost::collectives() const {
  if (missing_function_.empty() && !(version_ < kCollectives)) return collectives_;
  fail(ErrorKind::device, "--devices", "trees are fitted by several processes by XGBoost ", kCollectives.text(),
       " or newer, which has the tracker for their rendezvous: ", path_, " is ", version_.text(),
       "; install one by pip install xgboost-cpu into the active Python environment, or name its libxgboost.so by ",
       "--xgboost PATH or FREIGHT_XGBOOST");
}

void Xgboost::check(int result, const std::string& what) const {
  if (result != 0) {
    fail(ErrorKind::runtime, "XGBoost", what, ": ", words_of(functions_.XGBGetLastError()), " (", path_, ", ",
         version_.text(), ")");
  }
  if (t_unknown_parameter.empty()) return;
  const std::string words = std::move(t_unknown_parameter);
  t_unknown_parameter.clear();
  fail(ErrorKind::runtime, "XGBoost", what, ": ", words, " (", path_, ", ", version_.text(), ")");
}

void Xgboost::hear_warnings() const {
  t_unknown_parameter.clear();
  check(functions_.XGBRegisterLogCallback(heard), "its warnings");
}

const Xgboost& xgboost(const std::string& path) {
  static std::mutex guard;
  static auto& loaded = *new std::map<std::string, std::unique_ptr<Xgboost>>;  // by requested path; never closed
  const std::string named = named_library(path);
  if (named == kWithout) fail(ErrorKind::device, "XGBoost", "it is switched off by ", kVariable, "=", kWithout);
  const std::string asked = named.empty() ? join(candidates(named), ":") : named;
  const std::lock_guard lock(guard);
  if (const auto it = loaded.find(asked); it != loaded.end()) return *it->second;
  // The threads of a library with its own OpenMP (a Python package's) spin while they wait: with two of them on a busy
  // machine a fit takes four times as long. Its OpenMP reads this variable once, when it is loaded.
  ::setenv("OMP_WAIT_POLICY", "passive", 0);
  Loaded<XgboostFunctions> l{};
  l.library = find_library(candidates(named), LibraryKind::system);
  const char* by = path.empty() ? kVariable : "--xgboost";
  if (!l.library.handle && !named.empty()) {
    fail(ErrorKind::device, by, "no library can be loaded there: ", l.library.why);
  }
  if (!l.library.handle) fail(ErrorKind::device, "XGBoost", "it is not there: ", l.library.why, "; ", kInstall);
  look_up(l.library, "", {FREIGHT_XGBOOST_FUNCTIONS(FREIGHT_SYMBOL)}, &l.functions,
          cat("no XGBoost, or one before ", kOldest.text(), "; ", kInstall));
  if (!l.library.why.empty()) fail(ErrorKind::device, named.empty() ? "XGBoost" : by, l.library.why);
  std::unique_ptr<Xgboost> library(new Xgboost(std::move(l)));
  if (library->version() < kOldest) {
    fail(ErrorKind::device, "XGBoost", library->path(), " is ", library->version().text(), ", expected ",
         kOldest.text(), " or newer; ", kInstall);
  }
  return *(loaded[asked] = std::move(library));
}

void need_named_xgboost(const std::string& path) {
  const std::string named = named_library(path);
  if (!named.empty() && named != kWithout) xgboost(path);
}

XgboostHandle owned_booster(const Xgboost& library, void* booster) {
  return {booster, [&library](void* b) {
            if (!leaving()) library->XGBoosterFree(b);
          }};
}

XgboostHandle first_rounds(const Xgboost& library, void* booster, int64_t rounds) {
  void* sliced = nullptr;
  library.check(library->XGBoosterSlice(booster, 0, static_cast<int>(rounds), 1, &sliced), "the best rounds");
  return owned_booster(library, sliced);
}

XgboostHandle booster_from(const Xgboost& library, std::string_view file, const std::string& what) {
  void* made = nullptr;
  library.check(library->XGBoosterCreate(nullptr, 0, &made), "a booster");
  XgboostHandle booster = owned_booster(library, made);
  library.check(library->XGBoosterLoadModelFromBuffer(made, file.data(), file.size()), what);
  return booster;
}

Array saved_booster(const Xgboost& library, void* booster, const std::string& format, const std::string& what) {
  uint64_t length = 0;
  const char* bytes = nullptr;
  const std::string settings = cat(R"({"format": ")", format, R"("})");
  library.check(library->XGBoosterSaveModelToBuffer(booster, settings.c_str(), &length, &bytes), what);
  Array stored(DType::u8, {static_cast<int64_t>(length)});
  std::copy_n(reinterpret_cast<const uint8_t*>(bytes), length, stored.data<uint8_t>());
  return stored;
}

XgboostHandle owned_matrix(const Xgboost& library, void* matrix) {
  return {matrix, [&library](void* m) {
            if (!leaving()) library->XGDMatrixFree(m);
          }};
}

}  // namespace freight::tables
