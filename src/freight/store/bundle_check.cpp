// See bundle_check_internal.h.
#include "freight/base/parse_number.h"
#include "freight/store/bundle_check_internal.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "freight/base/error.h"
#include "freight/base/finite.h"
#include "freight/base/printable.h"
#include "freight/nn/sound.h"

namespace freight::store {

namespace {

template <class... Parts>
[[noreturn]] void refuse_stored(const std::string& path, const Parts&... parts) {
  fail(ErrorKind::checkpoint, path, parts...);
}

// No data has a smaller standard deviation: beyond these limits the first product leaves the range of f32.
constexpr float kLeastDeviation = 1e-20f, kLargest = 1e20f;
constexpr int64_t kLargestResize = 16384;

void check_preprocessing(const Preprocessing& p, const models::Model& model, const std::string& path) {
  if (p.input != model.input.shape) {
    refuse_stored(path, "preprocessing makes samples ", p.input, ", the model expects ", model.input.shape);
  }
  if (p.mean.size() != p.std.size() || (!p.mean.empty() && static_cast<int64_t>(p.mean.size()) != p.input[0])) {
    refuse_stored(path, "preprocessing has ", p.mean.size(), " means and ", p.std.size(), " standard deviations for ",
                  p.input[0], " channels");
  }
  for (size_t c = 0; c < p.std.size(); ++c) {
    // Written so that NaN fails.
    if (std::fabs(p.mean[c]) <= kLargest && p.std[c] >= kLeastDeviation && p.std[c] <= kLargest) continue;
    refuse_stored(path, "preprocessing: channel ", c, " has mean ", p.mean[c], " and standard deviation ", p.std[c],
                  ", expected numbers of at most ", kLargest, " and a standard deviation above 0, of at least ",
                  kLeastDeviation);
  }
  if (p.resize != 0 &&
      (p.input.rank() != 3 || p.resize < std::max(p.input[1], p.input[2]) || p.resize > kLargestResize)) {
    refuse_stored(path, "preprocessing resizes to ", p.resize, " and then crops ", p.input, ", expected at most ",
                  kLargestResize);
  }
}

void need_different_classes(const std::vector<std::string>& classes, int most, const std::string& path) {
  std::map<std::string, int> times;
  for (const std::string& name : classes) {
    if (++times[name] > most) refuse_stored(path, "several classes are named \"", excerpt(name), "\"");
  }
}

// A model that was trained here names all its outputs, each differently. Converted weights may come without names, and
// well-known lists (ImageNet's) have one name for two classes.
void check_classes(const Bundle& b, const std::string& path) {
  const bool trained = b.provenance.contains("data") && b.provenance.contains("steps");
  const bool predicts_classes = !models::regresses(b.model.loss) && !b.model.language_model();
  const int64_t outputs = b.model.classes(), names = static_cast<int64_t>(b.classes.size());
  if (names == 0 && !(trained && predicts_classes)) return;
  if (names != outputs) refuse_stored(path, "it has names of ", names, " classes, the model has ", outputs, " outputs");
  need_different_classes(b.classes, trained ? 1 : 2, path);
}

void check_provenance(const Bundle& b, const std::string& path) {
  constexpr size_t kLongest = 4096;  // of a text such as a name or path
  for (const auto& [key, value] : b.provenance) {
    if (key.size() + value.size() > kLongest) {
      refuse_stored(path, "provenance: ", excerpt(key), " has ", key.size() + value.size(),
                    " bytes with its name, expected at most ", kLongest);
    }
  }
  const auto check = [&](const char* key, auto number, double least, double most) {
    const auto it = b.provenance.find(key);
    if (it == b.provenance.end()) return;
    const auto got = parse_number<decltype(number)>(it->second);
    const auto value = static_cast<double>(got.value_or(number));
    if (got && value >= least && value <= most) return;
    refuse_stored(path, "provenance: ", key, ": expected a number from ", least, " to ", most, ", got '",
                  excerpt(it->second), "'");
  };
  check("steps", int64_t{}, 0, 0x1p62);
  check("seed", int64_t{}, 0, 0x1p63);
  check("val_split", double{}, -1, 1);
  check("data_fingerprint", uint64_t{}, 0, 0x1p64);
}

}  // namespace

void check_rows(const Bundle& b, const std::string& path) {
  const int64_t outputs = b.rows->outputs(), names = static_cast<int64_t>(b.classes.size());
  if (b.rows->predicts_classes() ? names != outputs : names != 0) {
    refuse_stored(path, "it has names of ", names, " classes, the model returns ", outputs,
                  b.rows->predicts_classes() ? " probabilities" : " values");
  }
  need_different_classes(b.classes, 1, path);
  check_provenance(b, path);
}

void check_said(const Bundle& b, const std::string& path) {
  check_preprocessing(b.preprocessing, b.model, path);
  check_classes(b, path);
  check_provenance(b, path);
}

void need_finite(const nn::Module& net, const std::string& path) {
  for (const nn::NamedVariable& v : net.state_dict())
    need_finite({v.name, v.variable.array()}, v.variable.role(), path);
}

void need_finite(const nn::NamedArray& tensor, Variable::Role role, const std::string& path) {
  const Array& array = tensor.array;
  if (!is_floating(array.dtype()) || nn::count_invalid(array, role) == 0) return;
  const Array f32 = array.dtype() == DType::f32 ? array : array.cast(DType::f32);
  const float* x = f32.data<float>();
  const int64_t odd = count_nonfinite(f32);
  const int64_t at = find_nonfinite(std::span(x, static_cast<size_t>(f32.numel())));
  refuse_stored(path, "tensor ", tensor.name, " holds ", x[at], " at element ", at, " (", with_commas(odd),
                odd == 1 ? " number" : " numbers", " of ", with_commas(f32.numel()),
                " are NaN or infinite); use an earlier checkpoint, or train again");
}

}  // namespace freight::store
