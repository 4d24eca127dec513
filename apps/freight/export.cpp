// `freight export`: writes a saved model as an ONNX file, or in the format of the library that fitted it.
#include <cstdio>
#include <filesystem>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/deploy/onnx.h"
#include "freight/io/file.h"
#include "freight/io/json_library.h"
#include "freight/report/card.h"
#include "options.h"
#include "output_path.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;

void print_line(const Json& j) { std::printf("%s\n", j.dump(-1, ' ', false, Json::error_handler_t::replace).c_str()); }

// Writes XGBoost's own file, which its packages load.
void export_library(const store::Bundle& bundle, const std::string& library, const std::string& output, bool json) {
  if (bundle.net() || bundle.rows->library() != library) {
    refuse_value(
        "--format", library,
        cat("a model of ", bundle.net() ? bundle.model.name : bundle.learner, " was not fitted by it, expected onnx"));
  }
  const std::string form = ends_with(output, ".json") ? "json" : ends_with(output, ".ubj") ? "ubj" : "";
  if (form.empty()) {
    refuse_value("-o", output, "XGBoost's files are .json or .ubj");
  }
  std::vector<std::string> columns;
  for (const store::Column& c : bundle.columns) columns.push_back(c.name);
  const std::string bytes = bundle.rows->library_file(form, columns);
  io::write_file_atomic(output, std::string_view(bytes));
  if (json) return print_line({{"file", output}, {"bytes", bytes.size()}, {"columns", columns}});
  std::printf("%s: %s bytes, for the columns %s\n", output.c_str(),
              with_commas(static_cast<int64_t>(bytes.size())).c_str(), join(columns, ", ").c_str());
}

// The folder that -o names, which is made where it ends in a slash; "" where it names a file.
std::string folder_of(const std::string& output) {
  std::error_code error;
  if (!ends_with(output, "/") && !std::filesystem::is_directory(output, error)) return "";
  std::filesystem::create_directories(output, error);
  if (error) fail(ErrorKind::runtime, output, "cannot make the directory: ", error.message());
  std::string folder = output;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

// The model card.
void write_card_beside(const store::Bundle& bundle, const std::string& model, const std::string& output) {
  const std::filesystem::path file = output;
  const std::string folder = file.parent_path().string();
  if (!report::write_card(folder, report::card_of(bundle, model, file.filename().string()))) {
    std::fprintf(stderr, "warning: %s/README.md is kept: it was not made by Freight\n", folder.c_str());
  }
}

}  // namespace

int export_command(const Args& args) {
  std::string model, output, format = "onnx";
  deploy::OnnxOptions options;
  bool json = false;
  Options o("export", "Writes a saved model as an ONNX file (opset 17, any batch size), or as XGBoost's own file.",
            "MODEL.safetensors -o FILE.onnx|FOLDER/ [options]",
            "  freight export runs/convnet-digits/model.safetensors -o digits.onnx --preprocessing\n"
            "  freight export runs/gbdt-adult/model.safetensors --format xgboost -o adult.ubj\n"
            "freight verify MODEL --onnx-runtime PYTHON compares its predictions.");
  o.positional("model", &model, "the saved model", true);
  o.add("-o,--output", &output,
        "the file to write; in a folder model.onnx (of --format xgboost model.ubj), and README.md, its model card",
        {.value = "FILE.onnx", .aliases = {"--out"}});
  o.add("--format", &format, "onnx; of boosted trees and forests xgboost, too: a .json or .ubj file",
        {.one_of = {"onnx", "xgboost"}});
  o.add("--softmax", &options.softmax, "end with probabilities, as freight predict does; else with logits");
  o.add("--preprocessing", &options.preprocessing,
        "accept images as u8 pixels (N, C, H, W) of the model's size instead of normalized floats");
  o.add("--json", &json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  need_given("-o", !output.empty(), "export");
  const std::string folder = folder_of(output);
  if (!folder.empty()) output = cat(folder, format == "onnx" ? "/model.onnx" : "/model.ubj");
  check_output("-o", output, {model});
  const std::string suffix = lower(std::filesystem::path(output).extension().string());
  if (format == "onnx" && !suffix.empty() && suffix != ".onnx") {
    refuse_value("-o", output, "ONNX files end with .onnx, and XGBoost's (--format xgboost) with .json or .ubj");
  }
  const store::Bundle bundle = store::load_bundle(model);
  if (format != "onnx") {
    for (const char* flag : {"--softmax", "--preprocessing"}) {
      if (o.given(flag)) refuse_flag_of(flag, "ONNX files", cat("the file is of --format ", format));
    }
    export_library(bundle, format, output, json);
    if (!folder.empty()) write_card_beside(bundle, model, output);
    return 0;
  }
  const deploy::OnnxSummary s = deploy::export_onnx(bundle, output, options);
  if (!folder.empty()) write_card_beside(bundle, model, output);
  if (json) {
    print_line({{"file", output},
                {"input", s.input},
                {"output", s.output},
                {"nodes", s.nodes},
                {"bytes", std::filesystem::file_size(output)},
                {"weight_bytes", s.weight_bytes},
                {"notes", s.notes}});
    return 0;
  }
  for (const std::string& note : s.notes) std::fprintf(stderr, "note    %s\n", note.c_str());
  std::printf("%s: %s -> %s, %s nodes, %s bytes of weights\n", output.c_str(), s.input.c_str(), s.output.c_str(),
              with_commas(s.nodes).c_str(), with_commas(s.weight_bytes).c_str());
  return 0;
}

}  // namespace freight::app
