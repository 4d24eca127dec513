// A custom module as an ONNX file: the graph that it traces is exported, so it need not be declared.
//   export FILE.onnx
#include <cstdio>

#include "freight/deploy/onnx.h"
#include "freight/freight.h"

using namespace freight;

// Attention over the rows of (N, 5, 8) with one query, then a class of three.
class PooledByKeys : public nn::Module {
 public:
  PooledByKeys() : keys_(&add<nn::Linear>("keys", 8, 8)), head_(&add<nn::Linear>("head", 8, 3)) {
    query_ = parameter("query", {8}, nn::init::uniform(-1, 1));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor scores = sum(tanh((*keys_)(x)) * query_, {2}, Keep::yes);  // (N, 5, 1)
    return (*head_)(sum(x * softmax(scores, 1), {1}));
  }

 private:
  nn::Linear *keys_, *head_;
  Variable query_;
};

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: export FILE.onnx\n"), 2;
  store::Bundle bundle;
  bundle.model = {.name = "pooled", .input = {DType::f32, {5, 8}}, .net = std::make_shared<PooledByKeys>()};
  bundle.preprocessing.input = {5, 8};
  bundle.classes = {"left", "middle", "right"};
  const deploy::OnnxSummary written = deploy::export_onnx(bundle, argv[1]);
  std::printf("%s -> %s\n", written.input.c_str(), written.output.c_str());
}
