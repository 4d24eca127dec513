// Ops against PyTorch: results, gradients and optimizer steps must equal those recorded in torch_ops.json (made by
// torch_ops.py beside it) in f64 by the oracle and in f32 on every backend.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/folders.h"
#include "tests/support/graphs.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

using nlohmann::json;

const json& cases() {
  static const json kCases = json::parse(std::ifstream(source_dir() + "/tests/peers/torch_ops.json"));
  return kCases;
}

Array array(const json& data, const Type& type) {
  if (is_floating(type.dtype)) return Array::of<double>(data.get<std::vector<double>>(), type.shape).cast(type.dtype);
  return Array::of<int64_t>(data.get<std::vector<int64_t>>(), type.shape).cast(type.dtype);
}

// The recorded case with its gradients as further outputs.
struct Case {
  Graph graph;
  std::vector<Array> inputs, expected;
};

Case load(const json& c, DType dtype) {
  Case out;
  out.graph = retype(parse(c["graph"].get<std::string>(), c["name"].get<std::string>()), dtype);
  Graph& g = out.graph;
  const std::vector<Value> leaves = g.leaves(Op::input);
  for (size_t i = 0; i < leaves.size(); ++i) out.inputs.push_back(array(c["inputs"][i]["data"], g.type(leaves[i])));
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    out.expected.push_back(array(c["outputs"][i], {DType::f64, g.type(g.outputs[i]).shape}));
  }
  const Value y = g.outputs[0];
  Builder b(g);
  const Value seed = b.one(Op::constant, ConstantAttrs{g.type(y), 0, array(c["weights"], g.type(y))}, {});
  std::vector<Value> wrt;
  for (const auto& [input, gradient] : c["gradients"].items()) {
    wrt.push_back(leaves[std::stoul(input)]);
    out.expected.push_back(array(gradient, {DType::f64, g.type(wrt.back()).shape}));
  }
  for (Value v : grad(g, y, wrt, seed)) g.outputs.push_back(v);
  return out;
}

TEST(Torch, ResultsAndGradientsAgree) {
  for (const json& c : cases()) {
    if (c.contains("after_three_steps")) continue;
    SCOPED_TRACE(c["name"].get<std::string>());
    const Case exact = load(c, DType::f64), single = load(c, DType::f32);
    const std::vector<Array> oracle = interpret(exact.graph, exact.inputs);
    for (size_t i = 0; i < oracle.size(); ++i) EXPECT_TRUE(close(oracle[i], exact.expected[i], 1e-9)) << "output " << i;
    for (const std::string& device : computing_backends()) {
      const std::vector<Array> got = run_planned(device, single.graph, single.inputs);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(close(got[i], exact.expected[i], 1e-5)) << "output " << i << " on " << device;
      }
    }
  }
}

TEST(Torch, OptimizerStepsAgree) {
  for (const json& c : cases()) {
    if (!c.contains("after_three_steps")) continue;
    SCOPED_TRACE(c["name"].get<std::string>());
    const Graph g = parse(c["graph"].get<std::string>());
    const Type t = g.type(g.leaves(Op::state)[0]);
    for (const std::string& device : computing_backends()) {
      std::vector<Array> states;
      for (const json& s : c["states"]) states.push_back(array(s, t));
      for (int step = 2; step <= 4; ++step) {
        run_planned(device, g,
                    {array(c["inputs"][0]["data"], t), Array::of<float>({c["lr"].get<float>()}, {}),
                     Array::of<float>({static_cast<float>(step)}, {})},
                    states);
      }
      for (size_t i = 0; i < states.size(); ++i) {
        const Array expected = array(c["after_three_steps"][i], {DType::f64, t.shape});
        EXPECT_TRUE(close(states[i], expected, 1e-5)) << "state " << i << " on " << device;
      }
    }
  }
}

}  // namespace
}  // namespace freight::test
