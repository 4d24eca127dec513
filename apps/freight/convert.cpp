// `freight models convert`: converts weights (safetensors, PyTorch) to a saved model, and back; and XGBoost's trees
// to a saved model.
#include <cstdio>
#include <map>

#include "command.h"
#include "fetch_progress.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/usage.h"
#include "freight/data/unicode.h"
#include "freight/deploy/convert.h"
#include "freight/io/weights_file.h"
#include "freight/job/signals.h"
#include "freight/store/weights_source.h"
#include "freight/tables/xgboost_import.h"
#include "model_source.h"
#include "options.h"
#include "output_path.h"

namespace freight::app {
namespace {

// Parses "0.485,0.456,0.406".
std::vector<float> numbers(const std::string& text, const char* flag) {
  std::vector<float> out;
  if (text.empty()) return out;
  for (const std::string& part : split(text, ',')) {
    const std::optional<float> v = parse_number<float>(part);
    if (!v) {
      refuse_text(flag, "a number per channel, like 0.485,0.456,0.406", text);
    }
    out.push_back(*v);
  }
  return out;
}

// Reads one name per line; names must differ, so that predictions can be distinguished.
std::vector<std::string> names_in(const std::string& file) {
  std::vector<std::string> out;
  if (file.empty()) return out;
  for (std::string& line : split(io::read_text(file), '\n')) {
    if (ends_with(line, "\r")) line.pop_back();
    out.push_back(std::move(line));
  }
  while (!out.empty() && out.back().empty()) out.pop_back();
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string& name = out[i];
    const auto refuse = [&](const auto&... what) { fail(ErrorKind::data, cat(file, ":", i + 1), what...); };
    if (const auto at = data::utf8_fault(name)) refuse("not UTF-8: byte ", *at + 1, " of the line");
    if (name.empty()) refuse("the line is empty, expected a name for class ", i);
    const auto [other, fresh] = first.emplace(name, i + 1);
    if (!fresh) refuse("the name ", name, " is in line ", other->second, " already, expected one for each class");
  }
  return out;
}

void convert_trees(const std::string& in, const std::string& out, const std::vector<std::string>& classes) {
  const store::Bundle bundle = tables::import_xgboost(in, classes);
  store::save_bundle(out, bundle);
  std::printf("model   %s\n", bundle.rows->lines()[0].c_str());
  std::vector<std::string> names;
  for (const store::Column& column : bundle.columns) names.push_back(column.name);
  std::printf("columns %s\n", join(names, ", ").c_str());
  if (!bundle.classes.empty()) std::printf("classes %s\n", join(bundle.classes, ", ").c_str());
}

}  // namespace

int models_convert_command(const Args& args) {
  std::string in, out, model, class_names, mean, std;
  int64_t resize = -1;
  ModelSize size;
  bool plain = false;
  Options o("models convert",
            "Makes a saved model of weights with torchvision's names or of XGBoost's trees, or takes weights out of "
            "one.",
            "IN OUT.safetensors --model NAME | --plain, or IN OUT.pth",
            "  freight models convert resnet18-f37072fd.pth resnet18.safetensors --model resnet18\n"
            "  freight models convert runs/mine/model.safetensors weights.safetensors --plain\n"
            "  freight models convert runs/mine/model.safetensors weights.pth     # for PyTorch's torch.load\n"
            "  freight models convert trees.json trees.safetensors   # or trees.ubj: what XGBoost's save_model writes");
  o.positional("in", &in,
               "weights (safetensors, PyTorch's .pth, .pt or .bin, or the .index.json of several; or a source like "
               "torchvision:resnet18, see freight models get), trees (.json, .ubj), or a saved model",
               true);
  o.positional("out", &out, "the file to write; .pth, .pt or .bin: weights for PyTorch", true);
  o.add("--model", &model, "the network of the weights: a built-in model or a spec FILE.json",
        {.aliases = {"-a", "--arch"}});
  o.add("--plain", &plain, "write only the weights");
  size.declare(o);
  o.add("--class-names", &class_names, "a file with a name per line, in the order of the classes", {.value = "FILE"});
  o.add("--mean", &mean,
        "mean per channel, of pixels / 255 (default: ImageNet's for networks for photographs, else none)",
        {.value = "A,B,C"});
  o.add("--std", &std, "standard deviation per channel, likewise", {.value = "A,B,C"});
  o.add("--resize", &resize, "shorter side before the center crop (default: 256 for 224)",
        {.min = 0, .aliases = {"--val-resize-size"}});
  if (o.parse(args) == Options::Outcome::done) return 0;
  const bool trees = tables::names_xgboost_file(in) && !ends_with(in, ".index.json");
  const bool for_torch = io::names_torch_file(out);
  for (const char* flag : {"--plain", "--model", "--num-classes", "--input-size", "--mean", "--std", "--resize"}) {
    if (trees && o.given(flag)) refuse_flag_of(flag, "networks", cat(in, " contains trees"));
  }
  if (trees && for_torch) fail(ErrorKind::usage, "out", "PyTorch has no trees: name ", in, "'s model *.safetensors");
  if (!trees && plain && !model.empty()) {
    fail(ErrorKind::usage, "--model", "or --plain: expected one of them, got both; see freight models convert --help");
  }
  if (!trees && !plain && !for_torch && model.empty()) {
    fail(ErrorKind::usage, "--model",
         "or --plain: expected one of them (trees are read from XGBoost's .json and .ubj files); see freight models "
         "convert --help");
  }
  if (store::names_weights_source(in)) {
    signals::install();
    Progress progress(o.quiet() ? Progress::Mode::off : Progress::Mode::automatic);
    in = store::weights_path(in, {.fetch = fetch_with_progress(progress)});
  }
  check_output("out", out, {in, class_names, model});
  if (trees) {
    convert_trees(in, out, names_in(class_names));
  } else if (plain || for_torch) {
    std::vector<const char*> of_models = {"--class-names", "--mean", "--std", "--resize"};
    if (model.empty()) of_models.insert(of_models.end(), {"--num-classes", "--input-size"});
    for (const char* flag : of_models) {
      if (plain) excludes({flag, o.given(flag)}, {"--plain", true}, "the saved model is complete");
      if (!plain && o.given(flag))
        refuse_flag_of(flag, "saved models", "weights for PyTorch have only names and values");
    }
    if (model.empty()) {
      deploy::export_weights(in, out);
    } else {
      store::Bundle checked;
      checked.model = models::load(model, size.options());
      store::load_weights(checked.model, in);
      deploy::export_weights(checked, out);
    }
  } else {
    const store::Bundle bundle = deploy::import_weights(models::load(model, size.options()), in,
                                                        {.classes = names_in(class_names),
                                                         .mean = numbers(mean, "--mean"),
                                                         .std = numbers(std, "--std"),
                                                         .resize = resize});
    store::save_bundle(out, bundle);
    const store::Preprocessing& p = bundle.preprocessing;
    std::printf("model   %s, input %s, %s parameters\n", bundle.model.name.c_str(), to_string(p.input).c_str(),
                with_commas(bundle.model.net->parameter_count()).c_str());
    for (size_t i = 0; i < p.mean.size(); ++i) {
      std::printf("channel %zu: mean %s, std %s\n", i, cat(p.mean[i]).c_str(), cat(p.std[i]).c_str());
    }
    if (p.resize > 0) std::printf("images are resized to %s\n", cat(p.resize).c_str());
  }
  std::printf("wrote   %s\n", out.c_str());
  return 0;
}

}  // namespace freight::app
