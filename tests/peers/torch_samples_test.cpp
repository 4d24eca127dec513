// PyTorch's own sample inputs for pooling, normalization, losses, indexing, order and reductions, functions and modules
// (torch_samples.py reads them out of the wheel): values and first gradients must be PyTorch's, and what it refuses
// must be refused. bench/results/torch-samples.md tells how many samples are equal, and what differs by intent with the
// reason; FREIGHT_WRITE_DOCS=1 writes its tables anew. Skipped where no Python with torch is found;
// FREIGHT_TORCH_PYTHON names one.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/nn/layer_type.h"
#include "freight/nn/nn.h"
#include "freight/ops/indexing.h"
#include "freight/ops/ops.h"
#include "freight/ops/signature.h"
#include "tests/support/document.h"
#include "tests/support/folders.h"
#include "tests/support/torch_python.h"

namespace freight {
namespace {

using nlohmann::json;

// A difference that is meant: PyTorch's refusal contains `theirs`, Freight's `ours`; "" where that one accepts.
struct Intent {
  std::string torch;  // the function, or "" for any
  std::string theirs, ours, reason;
};
const std::vector<Intent>& intents() {
  static const std::vector<Intent> kAll = {
      {"nn.functional.batch_norm", "", "one value per channel",
       "a batch without elements has no variance to train with"},
      {"", "0 dim batch size", "", "a sample without channels: its pool is as empty"},
      {"", "stride", "", "a stride of 0 stands for the kernel"},
      {"", "divisor must be not zero", "", "a divisor of 0 stands for the elements of the window"},
      {"", "", "has no axes", "an axis of a tensor of rank 0, which has none in Freight and NumPy"},
      {"__getitem__", "", "must be adjacent", "indices with an axis between them: permute first"},
      {"masked_fill", "only supports a 0-dimensional value", "", "where broadcasts all its operands"},
      {"", "to be greater than 0, got 0", "", "a group without elements: its normalisation is as empty"},
  };
  return kAll;
}

double number_of(const json& v) {
  if (v.is_string()) return std::strtod(v.get<std::string>().c_str(), nullptr);
  return v.is_boolean() ? v.get<bool>() : v.get<double>();
}

Array array_of(const json& entry) {
  DType dtype{};
  EXPECT_TRUE(parse_dtype(entry["dtype"].get<std::string>(), dtype)) << entry["dtype"];
  const Shape shape(entry["shape"].get<std::vector<int64_t>>());
  if (is_complex(dtype)) {
    std::vector<std::complex<double>> values;
    for (const json& v : entry["data"]) values.emplace_back(number_of(v[0]), number_of(v[1]));
    return Array::of(values, shape).cast(dtype);
  }
  if (is_floating(dtype)) {
    std::vector<double> values;
    for (const json& v : entry["data"]) values.push_back(number_of(v));
    return Array::of(values, shape).cast(dtype);
  }
  std::vector<int64_t> values;
  for (const json& v : entry["data"]) values.push_back(v.is_boolean() ? v.get<bool>() : v.get<int64_t>());
  return Array::of(values, shape).cast(dtype);
}

// Arguments of PyTorch's samples that C++ does not compile, so that the call is refused before it can be made.
const std::map<std::string, bool>& not_compiled() {
  using Complex = std::complex<double>;
  static const std::map<std::string, bool> kAll = {
      {"a complex number", !std::is_constructible_v<In, Complex> && !std::is_convertible_v<Complex, double>},
      {"a truth value for an axis", !std::is_constructible_v<nn::Softmax, bool>},
  };
  return kAll;
}

// The first argument of the kind in a call; "" where there is none.
std::string find_not_compiled(const json& c) {
  if (c.is_object() && c.contains("not compiled")) return c["not compiled"].get<std::string>();
  for (const auto& [_, v] : c.items()) {
    if (!v.is_structured()) continue;
    if (std::string found = find_not_compiled(v); !found.empty()) return found;
  }
  return "";
}

// A sample as Freight is called with it.
class Call {
 public:
  explicit Call(const json& sample) {
    for (const json& entry : sample["inputs"]) inputs_.emplace_back(array_of(entry));
  }
  const Tensor& input(size_t place) const { return inputs_[place]; }
  const std::map<size_t, Variable>& variables() const { return variables_; }  // by place of what they hold
  Tensor state(const std::string& name) const {
    for (const nn::NamedVariable& v : module_->state_dict()) {
      if (v.name == name) return v.variable.value();
    }
    fail(ErrorKind::usage, "sample", "no state ", name);
  }

  std::vector<Tensor> results(const json& c) {
    if (c.contains("layer")) return {layer(c)};
    if (c.contains("tensor")) return {tensor(c)};
    const auto name = c["call"].get<std::string>();
    if (name == "x[...]") return {indexed(c)};
    const Signature& s = signature(name, c);
    std::vector<ArgumentValue> values;
    for (const Parameter& p : s.parameters) values.push_back(c.contains(p.name) ? value(p, c[p.name]) : NotGiven{});
    return invoke(s, values);
  }

 private:
  // The overload that has all arguments that are given, and requires no other.
  static const Signature& signature(const std::string& name, const json& c) {
    static const std::set<std::string> kNoArguments = {"call", "result", "results"};
    for (const Signature* s : functions_named(name)) {
      std::set<std::string> known, required;
      for (const Parameter& p : s->parameters) {
        known.insert(p.name);
        if (p.required) required.insert(p.name);
      }
      bool fits = true;
      for (const auto& [key, _] : c.items()) fits = fits && (kNoArguments.contains(key) || known.contains(key));
      for (const std::string& r : required) fits = fits && c.contains(r);
      if (fits) return *s;
    }
    throw std::logic_error("no function takes " + c.dump());
  }

  Tensor tensor(const json& v) {
    if (v.contains("tensor")) return inputs_[v["tensor"].get<size_t>()];
    return results(v)[v.value("result", size_t{0})];
  }

  ArgumentValue value(const Parameter& p, const json& v) {
    using Kind = Parameter::Kind;
    if (v.is_null()) return NotGiven{};
    if (p.kind == Kind::tensors) {
      std::vector<Tensor> tensors;
      for (const json& t : v) tensors.push_back(tensor(t));
      return tensors;
    }
    if (v.is_object()) return tensor(v);
    if (v.is_boolean()) return p.kind == Kind::flag ? ArgumentValue(v.get<bool>()) : int64_t{v.get<bool>()};
    if (v.is_number_integer()) return v.get<int64_t>();
    if (v.is_number_float()) return v.get<double>();
    if (v.is_array()) return v.get<std::vector<int64_t>>();
    if (p.kind == Kind::number || p.kind == Kind::tensor) return number_of(v);
    DType dtype{};
    if (p.kind == Kind::dtype && parse_dtype(v.get<std::string>(), dtype)) return dtype;
    return v.get<std::string>();
  }

  Tensor indexed(const json& c) {
    const Tensor x = tensor(c["x"]);
    std::vector<Index> at;
    for (const json& i : c["items"]) {
      const auto end = [&](size_t k) {
        return i["slice"][k].is_null() ? std::optional<int64_t>() : i["slice"][k].get<int64_t>();
      };
      if (i.is_null()) {
        at.emplace_back(newaxis);
      } else if (i.is_number_integer()) {
        at.emplace_back(i.get<int64_t>());
      } else if (i.contains("slice")) {
        at.emplace_back(Slice{end(0), end(1), *end(2)});
      } else if (i.contains("ellipsis")) {
        at.emplace_back(ellipsis);
      } else {
        at.emplace_back(tensor(i));
      }
    }
    switch (at.size()) {
      case 1: return x[at[0]];
      case 2: return x[{at[0], at[1]}];
      case 3: return x[{at[0], at[1], at[2]}];
      default: return x[{at[0], at[1], at[2], at[3]}];
    }
  }

  Tensor layer(const json& c) {
    const nn::LayerType* type = nn::find_layer_type(c["layer"].get<std::string>());
    std::vector<nn::Setting> values;
    std::set<std::string> known;
    for (const nn::Field& f : type->fields()) known.insert(f.key());
    for (const auto& [key, _] : c["settings"].items()) {
      if (!known.contains(key)) throw std::logic_error(cat("no setting ", key, " of ", type->name()));
    }
    for (const nn::Field& f : type->fields()) {
      nn::Setting s = f.usual;
      if (c["settings"].contains(f.key())) set(s, c["settings"][f.key()]);
      values.push_back(s);
    }
    module_ = type->make(values);
    if (c["training"].get<bool>()) {
      module_->train();
    } else {
      module_->eval();
    }
    for (const nn::NamedVariable& v : module_->state_dict()) {
      const size_t place = c["state"][v.name]["tensor"].get<size_t>();
      v.variable.set(inputs_[place].array());
      if (!v.name.starts_with("running")) variables_.emplace(place, v.variable);
    }
    return (*module_)(tensor(c["input"]));
  }
  static void set(nn::Setting& s, const json& v) {
    using Kind = nn::Setting::Kind;
    if (s.kind == Kind::integer) s.integer = v.get<int64_t>();
    if (s.kind == Kind::number) s.number = number_of(v);
    if (s.kind == Kind::flag) s.flag = v.get<bool>();
    if (s.kind == Kind::text) s.text = v.get<std::string>();
    if (s.kind == Kind::extents) {
      s.extents = v.is_array() ? Extents(Shape(v.get<std::vector<int64_t>>())) : Extents(v.get<int64_t>());
    }
  }

  std::vector<Tensor> inputs_;
  std::map<size_t, Variable> variables_;
  std::shared_ptr<nn::Module> module_;
};

// Equal to `tolerance` of the largest number, and infinite or none where PyTorch's is.
std::string difference(const Tensor& got, const json& want, double tolerance) {
  const std::vector<double> values = got.to_vector<double>();
  if (values.size() != want.size()) return cat(values.size(), " numbers, need ", want.size());
  double scale = 1;
  for (const json& v : want) {
    if (std::isfinite(number_of(v))) scale = std::max(scale, std::fabs(number_of(v)));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const double w = number_of(want[i]), v = values[i];
    const bool same = std::isfinite(w) ? std::fabs(v - w) <= tolerance * scale : std::isnan(w) ? std::isnan(v) : v == w;
    if (!same) return cat("at ", i, " got ", v, ", need ", w);
  }
  return "";
}

// How Freight's values and gradients differ from PyTorch's; "" where they do not. Throws what Freight refuses.
std::string compare(const json& sample) {
  Call call(sample);
  const json& ours = sample["ours"];
  const std::vector<Tensor> results = call.results(ours);
  for (const Tensor& t : results) t.array();
  if (!sample.contains("results")) return "";
  const double tolerance = sample["dtype"] == "f64" ? 1e-9 : 1e-5;
  const auto places = ours.value("results", std::vector<size_t>{0});  // of what PyTorch returns, in order
  for (size_t i = 0; i < places.size(); ++i) {
    const json& theirs = sample["results"][i];
    const Tensor& y = results[places[i]];
    if (json(y.shape().vector()) != theirs["shape"]) return cat("shape ", y.shape(), ", need ", theirs["shape"].dump());
    const std::string text = difference(y, theirs["values"], tolerance);
    if (!text.empty()) return text;
  }
  const json after = sample.value("after", json::object());
  for (const auto& [name, values] : after.items()) {
    const std::string text = difference(call.state(name), values, tolerance);
    if (!text.empty()) return cat(name, " ", text);
  }
  const json& gradients = sample["gradients"];
  if (gradients.empty()) return "";
  const Tensor y = results[0], place = reshape(arange(y.numel()), y.shape());
  const Tensor weights = cast(remainder(place * 37, 11) - 5, y.dtype()) / 4;
  for (const auto& [at, want] : gradients.items()) {
    const size_t i = std::stoul(at);
    const auto variable = call.variables().find(i);
    const Tensor loss = sum(y * weights);
    const Tensor g = variable != call.variables().end()
                         ? grad(loss, std::vector<Variable>{variable->second}, {.allow_unused = true})[0]
                         : grad(loss, std::vector<Tensor>{call.input(i)}, {.allow_unused = true})[0];
    const std::string text = difference(g, want, tolerance);
    if (!text.empty()) return cat("gradient of input ", i, " ", text);
  }
  return "";
}

struct Counts {
  int samples = 0, equal = 0, refused = 0, differs = 0;
  int left_out = 0;  // of those that differ: what Freight has by no means, and the share does not count
};
struct Tally {
  std::map<std::string, Counts> functions;
  std::map<std::string, std::map<std::string, int>> reasons;  // by reason: how many of which function
  std::set<std::string> of_freight;
  std::map<std::string, std::set<std::string>> calls;  // Freight's functions by PyTorch's
};

// Freight's functions in a call, the outer one first.
void collect_calls(const json& c, std::set<std::string>& names) {
  if (c.is_object()) {
    if (c.contains("call") && c["call"] != "full" && c["call"] != "reshape") names.insert(c["call"].get<std::string>());
    if (c.contains("layer")) names.insert("nn::" + c["layer"].get<std::string>());
    for (const auto& [_, v] : c.items()) collect_calls(v, names);
  }
}

void differ_by_intent(Tally& tally, const std::string& torch, const std::string& reason) {
  Counts& counts = tally.functions[torch];
  ++counts.differs;
  for (const char* what : {"of rank 0", "`out`", "`sparse`"}) {
    if (reason.find(what) == std::string::npos) continue;
    ++counts.left_out;
    break;
  }
  ++tally.reasons[reason][torch];
}

// Whether a rule of the table says why one of the two refuses what the other takes.
bool intended(Tally& tally, const std::string& torch, const std::string& theirs, const std::string& ours) {
  for (const Intent& i : intents()) {
    if (!i.torch.empty() && i.torch != torch) continue;
    if (i.theirs.empty() != theirs.empty() || i.ours.empty() != ours.empty()) continue;
    if (theirs.find(i.theirs) == std::string::npos || ours.find(i.ours) == std::string::npos) continue;
    differ_by_intent(tally, torch, i.reason);
    return true;
  }
  return false;
}

void run(const json& sample, size_t number, Tally& tally) {
  const auto torch = sample["torch"].get<std::string>();
  Counts& counts = tally.functions[torch];
  ++counts.samples;
  if (sample.contains("missing")) {
    return differ_by_intent(tally, torch, cat("no counterpart: ", sample["missing"].get<std::string>()));
  }
  collect_calls(sample["ours"], tally.calls[torch]);
  const std::string theirs = sample.value("refused", "");
  std::string ours, text;
  try {
    if (const std::string argument = find_not_compiled(sample["ours"]); !argument.empty()) {
      EXPECT_TRUE(not_compiled().at(argument)) << argument;
      ours = "does not compile: " + argument;
    } else {
      text = compare(sample);
    }
  } catch (const Error& e) {
    ours = e.what();
  } catch (const std::exception& e) {
    text = e.what();
  }
  if (sample.contains("refused") && !ours.empty()) {
    ++counts.refused;
  } else if (!sample.contains("refused") && ours.empty() && text.empty()) {
    ++counts.equal;
  } else if (!text.empty() || !intended(tally, torch, theirs, ours)) {
    if (text.empty()) text = ours.empty() ? "PyTorch refuses: " + theirs : "Freight refuses: " + ours;
    ADD_FAILURE() << torch << ", sample " << number << " (" << sample["dtype"].get<std::string>() << "): " << text
                  << "\n"
                  << sample["ours"].dump().substr(0, 400) << "\n"
                  << sample["inputs"].dump().substr(0, 300);
  }
}

// How many of the samples that count are equal or refused by both, in percent.
std::string share(const Counts& c) {
  const int counted = c.samples - c.left_out;
  return counted > 0 ? cat((c.equal + c.refused) * 100 / counted, " %") : "";
}

std::string functions_table(const Tally& tally) {
  std::string table =
      "| PyTorch | Freight | samples | equal | refused by both | differs by intent | share |\n"
      "|---|---|---:|---:|---:|---:|---:|\n";
  Counts all;
  for (const auto& [torch, c] : tally.functions) {
    std::vector<std::string> calls;
    if (const auto it = tally.calls.find(torch); it != tally.calls.end())
      calls = {it->second.begin(), it->second.end()};
    table += cat("| `", torch, "` | ", calls.empty() ? "" : "`" + join(calls, "`, `") + "`", " | ", c.samples, " | ",
                 c.equal, " | ", c.refused, " | ", c.differs, " | ", share(c), " |\n");
    all.samples += c.samples;
    all.equal += c.equal;
    all.refused += c.refused;
    all.differs += c.differs;
    all.left_out += c.left_out;
  }
  return table + cat("| all | | ", all.samples, " | ", all.equal, " | ", all.refused, " | ", all.differs, " | ",
                     share(all), " |\n");
}

std::string reasons_table(const Tally& tally) {
  std::string table = "| reason | samples of |\n|---|---|\n";
  for (const auto& [reason, functions] : tally.reasons) {
    std::vector<std::string> of;
    for (const auto& [torch, n] : functions) of.push_back(cat("`", torch, "` ", n));
    table += cat("| ", testing::cell(reason), " | ", join(of, ", "), " |\n");
  }
  return table;
}

TEST(TorchSamples, ValuesGradientsAndRefusalsArePyTorchs) {
  const std::string python = testing::torch_python();
  if (python.empty()) GTEST_SKIP() << testing::kWithoutTorch;
  const testing::TemporaryDir dir;
  const DeviceScope on("cpu");
  const std::string command =
      cat("'", python, "' '", source_dir(), "/tests/peers/torch_samples.py' '", dir / "samples.json", "'");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const json all = json::parse(std::ifstream(dir / "samples.json"));
  ASSERT_GT(all["samples"].size(), 1000u);
  Tally tally;
  size_t number = 0;
  for (const json& sample : all["samples"]) run(sample, number++, tally);

  std::vector<std::string> without;
  for (const json& name : all["without"]) without.push_back("`" + name.get<std::string>() + "`");
  const auto version = cat("PyTorch ", all["torch"].get<std::string>());
  const std::string path = source_dir() + "/bench/results/torch-samples.md";
  if (!std::getenv("FREIGHT_WRITE_DOCS") && testing::read_text(path).find(version) == std::string::npos) {
    std::printf(
        "the tables of bench/results/torch-samples.md are not compared: they are those of another version than %s\n",
        version.c_str());
    return;
  }
  testing::expect_tables(path, {{"version", version + ", its samples in f32, in f64 and, where it has them, in i64.\n"},
                                {"samples", functions_table(tally)},
                                {"differences", reasons_table(tally)},
                                {"without", join(without, ", ") + "\n"}});
}

}  // namespace
}  // namespace freight
