// XGBoost's C interface, loaded at run time: Debian's libxgboost0 (1.7.4) or a newer library. Nothing is linked and
// XGBoost's headers are not needed: its functions are declared here.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "freight/base/array.h"
#include "freight/base/library.h"

namespace freight::tables {

// Functions of XGBoost 1.7 and later. All but the first two return 0, or -1 with a text in XGBGetLastError.
#define FREIGHT_XGBOOST_FUNCTIONS(X)                                                                             \
  X(XGBoostVersion, void, int*, int*, int*)                                                                      \
  X(XGBGetLastError, const char*, void)                                                                          \
  X(XGBuildInfo, int, const char**)                                                                              \
  X(XGBRegisterLogCallback, int, void (*)(const char*))                                                          \
  X(XGDMatrixCreateFromDense, int, const char*, const char*, void**)                                             \
  X(XGDMatrixFree, int, void*)                                                                                   \
  X(XGDMatrixSetInfoFromInterface, int, void*, const char*, const char*)                                         \
  X(XGDMatrixSetFloatInfo, int, void*, const char*, const float*, uint64_t)                                      \
  X(XGDMatrixSetStrFeatureInfo, int, void*, const char*, const char**, uint64_t)                                 \
  X(XGProxyDMatrixCreate, int, void**)                                                                           \
  X(XGProxyDMatrixSetDataDense, int, void*, const char*)                                                         \
  X(XGQuantileDMatrixCreateFromCallback, int, void*, void*, void*, void (*)(void*), int (*)(void*), const char*, \
    void**)                                                                                                      \
  X(XGDMatrixCreateFromCallback, int, void*, void*, void (*)(void*), int (*)(void*), const char*, void**)        \
  X(XGBoosterCreate, int, void* const*, uint64_t, void**)                                                        \
  X(XGBoosterFree, int, void*)                                                                                   \
  X(XGBoosterSetStrFeatureInfo, int, void*, const char*, const char**, uint64_t)                                 \
  X(XGBoosterSetParam, int, void*, const char*, const char*)                                                     \
  X(XGBoosterUpdateOneIter, int, void*, int, void*)                                                              \
  X(XGBoosterPredictFromDMatrix, int, void*, void*, const char*, const uint64_t**, uint64_t*, const float**)     \
  X(XGBoosterPredictFromDense, int, void*, const char*, const char*, void*, const uint64_t**, uint64_t*,         \
    const float**)                                                                                               \
  X(XGBoosterSlice, int, void*, int, int, int, void**)                                                           \
  X(XGBoosterSaveModelToBuffer, int, void*, const char*, uint64_t*, const char**)                                \
  X(XGBoosterLoadModelFromBuffer, int, void*, const void*, uint64_t)                                             \
  X(XGBoosterSaveJsonConfig, int, void*, uint64_t*, const char**)

// Functions for fits by several processes. They return 0, or -1.
#define FREIGHT_XGBOOST_COLLECTIVES(X)             \
  X(XGTrackerCreate, int, const char*, void**)     \
  X(XGTrackerRun, int, void*, const char*)         \
  X(XGTrackerWorkerArgs, int, void*, const char**) \
  X(XGTrackerWaitFor, int, void*, const char*)     \
  X(XGTrackerFree, int, void*)                     \
  X(XGCommunicatorInit, int, const char*)          \
  X(XGCommunicatorFinalize, int, void)

struct XgboostCollectives {
  FREIGHT_XGBOOST_COLLECTIVES(FREIGHT_POINTER)
};

struct XgboostFunctions {
  FREIGHT_XGBOOST_FUNCTIONS(FREIGHT_POINTER)
};

struct XgboostVersion {
  int major = 0, minor = 0, patch = 0;
  std::string text() const;
  friend bool operator<(const XgboostVersion& a, const XgboostVersion& b) {
    return std::tie(a.major, a.minor, a.patch) < std::tie(b.major, b.minor, b.patch);
  }
};

class Xgboost {
 public:
  const XgboostFunctions& operator*() const { return functions_; }
  const XgboostFunctions* operator->() const { return &functions_; }
  const std::string& path() const { return path_; }
  const XgboostVersion& version() const { return version_; }
  bool cuda() const { return cuda_; }
  // Throws Error(device) that names the first version with these functions.
  const XgboostCollectives& collectives() const;
  // Throws Error(runtime) with XGBoost's own text if a function did not return 0; `what` is what was attempted.
  void check(int result, const std::string& what) const;
  // Sends XGBoost's warnings on this thread to the log from now on. check() then throws Error(runtime) for a parameter
  // that XGBoost does not know, which it would ignore.
  void hear_warnings() const;

 private:
  friend const Xgboost& xgboost(const std::string& path);
  explicit Xgboost(Loaded<XgboostFunctions> loaded);

  XgboostFunctions functions_;
  XgboostCollectives collectives_;
  std::string missing_function_;  // the first missing one of the collectives; empty if there is none
  std::string path_;
  XgboostVersion version_;
  bool cuda_ = false;
};

// The library at `path`. If that is empty, the one that FREIGHT_XGBOOST names, or the first one found: in the active
// Python environment (VIRTUAL_ENV, CONDA_PREFIX), in the loader's path, in Python's usual folders. Loaded once and
// kept. Throws Error(device) that says how to install it, or what the named library lacks. `none` in place of a path
// switches it off.
const Xgboost& xgboost(const std::string& path = {});
// Throws Error(device) if `path` or FREIGHT_XGBOOST names a library that cannot be used. A comparison of models may
// skip trees because no library is installed, but not because a name is mistyped.
void need_named_xgboost(const std::string& path);

// XGBoost's boosters and matrices, which XGBoost frees.
using XgboostHandle = std::shared_ptr<void>;
XgboostHandle owned_booster(const Xgboost& library, void* booster);
// A booster of the trees of the first `rounds` rounds of another one.
XgboostHandle first_rounds(const Xgboost& library, void* booster, int64_t rounds);
// A booster of the trees in a file of XGBoost's, JSON or UBJSON, and the bytes (u8) of such a file, of the format
// "json" or "ubj". Throw Error(runtime) that names `what`.
XgboostHandle booster_from(const Xgboost& library, std::string_view file, const std::string& what);
Array saved_booster(const Xgboost& library, void* booster, const std::string& format, const std::string& what);
XgboostHandle owned_matrix(const Xgboost& library, void* matrix);

}  // namespace freight::tables
