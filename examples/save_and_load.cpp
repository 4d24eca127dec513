// A custom layer in a saved model: once declared, it is saved and loaded like any other. An undeclared layer is refused
// by name; its weights can still be saved, and the whole network as a graph.
#include <cstdio>
#include <filesystem>

#include "freight/deploy/predictor.h"
#include "freight/freight.h"
#include "freight/store/bundle.h"

using namespace freight;

// x^2 by learned amounts, where x is above a threshold.
struct BendOptions {
  double threshold = 0;
  int64_t width = 0;
};
class Bend : public nn::Module {
 public:
  using Fields = BendOptions;
  explicit Bend(const Fields& f) : fields_(nn::checked<Bend>(f)) {
    amount_ = parameter("amount", {f.width}, nn::init::uniform(0, 1));
  }
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return x + amount_ * square(relu(x - fields_.threshold)); }

 private:
  Fields fields_;
  Variable amount_;
};

struct Unknown : nn::Linear {
  Unknown() : nn::Linear(4, 3) {}
  Tensor forward(const Tensor& x) override { return tanh(nn::Linear::forward(x)); }
};

store::Bundle bundle_of(const char* name, std::shared_ptr<nn::Module> net) {
  store::Bundle b;
  b.model = {.name = name, .input = {DType::f32, {4}}, .net = std::move(net), .loss = models::Loss::mse};
  b.preprocessing.input = {4};
  return b;
}

int main() {
  nn::register_layer(nn::Layer<Bend>("Bend", "x plus learned parts of its square above a threshold")
                         .size("width", &BendOptions::width, -1, "numbers per row")
                         .field("threshold", &BendOptions::threshold, "where it begins"));
  const std::string path = (std::filesystem::temp_directory_path() / "freight-bend.safetensors").string();
  const store::Bundle bend = bundle_of(
      "bend",
      std::make_shared<nn::Sequential>(nn::Linear(4, 6), Bend({.threshold = 0.25, .width = 6}), nn::Linear(6, 2)));
  store::save_bundle(path, bend);
  const store::Bundle loaded = store::load_bundle(path);
  const std::vector<Array> x = {Array::of<float>({1, -2, 0.5, 3}, {4})};
  deploy::Predictor before(bend), after(loaded);
  std::printf("answers as before: %s\n",
              before.run(x).to_vector<float>() == after.run(x).to_vector<float>() ? "yes" : "no");

  const store::Bundle unknown = bundle_of("unknown", std::make_shared<Unknown>());
  try {
    store::save_bundle(path, unknown);
  } catch (const Error& e) {
    std::printf("refused: %s\n", e.what());
  }
  store::save_weights(unknown.model, path);
  models::Model again = bundle_of("unknown", std::make_shared<Unknown>()).model;
  store::load_weights(again, path);
  std::printf("weights as before: %s\n",
              (*again.net)(Tensor::of<float>({{1, 2, 3, 4}})).to_vector<float>() ==
                      (*unknown.model.net)(Tensor::of<float>({{1, 2, 3, 4}})).to_vector<float>()
                  ? "yes"
                  : "no");

  store::Bundle graph = unknown;
  graph.model = models::as_graph(unknown.model);
  store::save_bundle(path, graph);
  deploy::Predictor code(unknown), stored(store::load_bundle(path));
  std::printf("graph as its code: %s\n",
              code.run(x).to_vector<float>() == stored.run(x).to_vector<float>() ? "yes" : "no");
  std::filesystem::remove(path);
}
