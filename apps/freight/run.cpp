// `freight run`: executes a graph in text form on npy tensors, on any backend, with gradients on request. It is for bug
// reports and for checking ops against other programs.
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>

#include "command.h"
#include "freight/backend/backend.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/io/npy.h"
#include "freight/passes/passes.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"
#include "options.h"

namespace freight::app {
namespace {

struct Tensors {
  std::vector<std::pair<std::string, Array>> given;
  Array take(const Graph& g, Value leaf) const {
    const std::string& name = leaf_name(g, leaf);
    for (const auto& [n, a] : given) {
      if (n != name) continue;
      const Type& t = g.type(leaf);
      if (a.shape() != t.shape)
        fail(ErrorKind::data, name, "got ", Type{a.dtype(), a.shape()}, ", the graph needs ", t);
      const bool as_is = a.dtype() == t.dtype || is_complex(t.dtype);
      return (as_is ? a : io::computable(a, name)).cast(t.dtype).clone();
    }
    fail(ErrorKind::usage, "--input", "no tensor for ", name, " ", g.type(leaf), "; pass --input ", name, "=FILE.npy");
  }
};

// The names of the graph's outputs: out0.npy, out1.npy, ...; updated states have their own names, gradients are
// grad.NAME.npy.
std::vector<std::string> output_names(Graph& g, const std::string& loss) {
  std::vector<std::string> names;
  for (size_t i = 0; i < g.outputs.size(); ++i) names.push_back(cat("out", i));
  if (loss.empty()) return names;
  const int64_t k = starts_with(loss, "out") ? parse_number<int64_t>(loss.substr(3)).value_or(-1) : -1;
  if (k < 0 || k >= static_cast<int64_t>(g.outputs.size()) || cat("out", k) != loss) {
    refuse_name("--grad", loss, names);
  }
  std::vector<Value> wrt;
  for (const Op kind : {Op::input, Op::state}) {
    for (Value v : g.leaves(kind)) {
      if (is_floating(g.type(v).dtype)) wrt.push_back(v);
    }
  }
  const std::vector<Value> d = grad(g, g.outputs[static_cast<size_t>(k)], wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (!d[i].valid()) continue;
    g.outputs.push_back(d[i]);
    names.push_back("grad." + leaf_name(g, wrt[i]));
  }
  return names;
}

// The files that a run writes: its outputs, then updated states under their names. A graph may come from a stranger, so
// names must not lead out of the folder, and no file may be written twice.
std::vector<std::string> files_of(const Graph& g, std::vector<std::string> names, const std::string& source) {
  for (const Update& u : g.updates) names.push_back(leaf_name(g, u.state));
  std::set<std::string> seen;
  for (std::string& name : names) {
    constexpr size_t kLongest = 200;
    if (name.empty() || name.size() > kLongest || name.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
      fail(ErrorKind::data, source, "got the name ", excerpt(name), ", which is that of a file: expected one to ",
           kLongest, " characters without '/'");
    }
    if (!seen.insert(name).second) {
      fail(ErrorKind::data, source, "two results would be written to ", excerpt(name), ".npy: use another name");
    }
    name += ".npy";
  }
  return names;
}

}  // namespace

int run_command(const Args& args) {
  std::string file, device = "auto", loss, output_dir;
  std::vector<std::string> inputs;
  bool plan_text = false;
  Options o("run", "Executes a graph in text form (docs/graph-text.md) on npy tensors.",
            "FILE --input NAME=a.npy ... --output-dir D");
  o.positional("file", &file, "the graph; - reads standard input", true);
  o.add("--input", &inputs, "NAME=FILE.npy, once per input and state of the graph");
  o.add("-o,--output-dir", &output_dir, "where out0.npy, ..., updated states and gradients go", {.aliases = {"--out"}});
  o.add("--grad", &loss,
        "also write the gradients of this output (out0) with respect to all floating inputs and states");
  o.add("--device", &device, "auto, cpu, ref, cuda:N, opencl:N or another backend");
  o.add("--plan", &plan_text, "print the plan and stop");
  if (o.parse(args) == Options::Outcome::done) return 0;
  const std::string text = io::read_text(file == "-" ? "/dev/stdin" : file);
  Graph g = parse(text, file);
  const std::vector<std::string> names = output_names(g, loss);
  const auto plan = plan_for(g, {.backend = device == "auto" ? "cpu" : device});
  if (plan_text) {
    std::fputs(print(*plan).c_str(), stdout);
    return 0;
  }
  need_given("--output-dir", !output_dir.empty(), "run");
  const std::vector<std::string> files = files_of(g, names, file);
  Tensors tensors;
  for (const std::string& spec : inputs) {
    const size_t eq = spec.find('=');
    if (eq == std::string::npos) refuse_text("--input", "NAME=FILE.npy", spec);
    tensors.given.emplace_back(spec.substr(0, eq), io::load_npy(spec.substr(eq + 1)));
  }
  std::vector<Array> in, out, states;
  std::vector<std::shared_ptr<Storage>> storages;
  for (Value v : g.leaves(Op::input)) in.push_back(tensors.take(g, v));
  for (Value v : g.leaves(Op::state)) {
    states.push_back(tensors.take(g, v));
    storages.push_back(states.back().storage());
  }
  for (Value v : g.outputs) out.emplace_back(g.type(v).dtype, g.type(v).shape);
  Executable(plan, storages).run(in, out);
  std::error_code error;
  std::filesystem::create_directories(output_dir, error);
  if (error) fail(ErrorKind::runtime, "--output-dir", "cannot make ", output_dir, ": ", error.message());
  for (size_t i = 0; i < out.size(); ++i) io::save_npy(cat(output_dir, "/", files[i]), out[i]);
  const std::vector<Value> leaves = g.leaves(Op::state);
  for (size_t u = 0; u < g.updates.size(); ++u) {
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i] == g.updates[u].state) io::save_npy(cat(output_dir, "/", files[out.size() + u]), states[i]);
    }
  }
  return 0;
}

}  // namespace freight::app
