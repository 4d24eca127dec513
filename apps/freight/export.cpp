// `freight export`: a stored model as an ONNX file.
#include <cstdio>

#include <nlohmann/json.hpp>

#include "command.h"
#include "freight/base/error.h"
#include "freight/deploy/onnx.h"
#include "options.h"
#include "output_path.h"

namespace freight::app {

int export_command(const Args& args) {
  std::string model, output;
  deploy::OnnxOptions options;
  bool json = false;
  Options o("export", "Writes a stored model as an ONNX file (opset 17) for any batch size.",
            "MODEL.safetensors -o FILE.onnx [options]",
            "  freight export runs/convnet-digits/model.safetensors -o digits.onnx --preprocessing\n"
            "freight verify MODEL --onnx-runtime PYTHON compares what it answers.");
  o.positional("model", &model, "the stored model", true);
  o.add("-o,--output", &output, "the file to write", {.value = "FILE.onnx", .aliases = {"--out"}});
  o.add("--softmax", &options.softmax, "end with probabilities, as freight predict does; else with logits");
  o.add("--preprocessing", &options.preprocessing,
        "of pictures: take u8 pixels (N, C, H, W) of the model's size instead of normalised floats");
  o.add("--json", &json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (output.empty()) fail(ErrorKind::usage, "-o", "is missing; see freight export --help");
  check_output("-o", output, {model});
  const deploy::OnnxSummary s = deploy::export_onnx(store::load_net(model, "export to ONNX"), output, options);
  if (json) {
    const nlohmann::ordered_json j = {{"file", output},   {"input", s.input},        {"output", s.output},
                                      {"nodes", s.nodes}, {"bytes", s.weight_bytes}, {"notes", s.notes}};
    std::printf("%s\n", j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
    return 0;
  }
  for (const std::string& note : s.notes) std::fprintf(stderr, "note    %s\n", note.c_str());
  std::printf("%s: %s -> %s, %s nodes, %s bytes of weights\n", output.c_str(), s.input.c_str(), s.output.c_str(),
              with_commas(s.nodes).c_str(), with_commas(s.weight_bytes).c_str());
  return 0;
}

}  // namespace freight::app
