// See onnx_runtime_internal.h.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "freight/base/error.h"
#include "freight/deploy/onnx_runtime_internal.h"
#include "freight/io/npy.h"

namespace freight::deploy::onnx {

namespace {

constexpr const char* kRun = R"(import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
x, y = session.get_inputs()[0].name, session.get_outputs()[0].name
for source, target in zip(sys.argv[2::2], sys.argv[3::2]):
    numpy.save(target, session.run([y], {x: numpy.load(source)})[0])
)";

struct Ended {
  bool well = false;
  std::string last_words;  // the last line of its output
};

Ended run(const std::string& python, const std::string& script, const std::vector<std::string>& args,
          const std::string& log) {
  std::vector<std::string> words{python, "-c", script};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = posix_spawnp(&child, python.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return {false, std::strerror(error)};
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return {false, std::strerror(errno)};
  }
  std::string text = io::read_text(log);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  const size_t line = text.rfind('\n');
  return {WIFEXITED(status) && WEXITSTATUS(status) == 0, line == std::string::npos ? text : text.substr(line + 1)};
}

}  // namespace

void need_python(const std::string& python) {
  const io::ScratchDir dir;
  const Ended e = run(python, "import numpy, onnxruntime\nprint('ready')", {}, dir.path() + "/log");
  if (e.well && e.last_words == "ready") return;
  fail(ErrorKind::usage, "--onnx-runtime", "expected a Python with onnxruntime and numpy, got ", python, ": ",
       e.well ? "this ran, but is no Python" : e.last_words,
       "; python3 -m venv DIR and DIR/bin/pip install onnxruntime onnx numpy make one: --onnx-runtime DIR/bin/python");
}

bool check_in_python(const std::string& python, const std::string& file, const std::string& scratch_dir) {
  const std::string log = scratch_dir + "/log";
  if (!run(python, "import onnx", {}, log).well) return false;
  const Ended e = run(python, "import sys, onnx\nonnx.checker.check_model(sys.argv[1], full_check=True)", {file}, log);
  if (!e.well) fail(ErrorKind::verification, "onnx.checker", e.last_words);
  return true;
}

std::vector<Array> run_in_python(const std::string& python, const std::string& file, const std::vector<Array>& inputs,
                                 const std::string& scratch_dir) {
  const std::string log = scratch_dir + "/log";
  std::vector<std::string> args{file};
  const auto name = [&](size_t i, const char* end) { return cat(scratch_dir, "/", i, end); };
  for (size_t i = 0; i < inputs.size(); ++i) {
    io::save_npy(name(i, ".in.npy"), inputs[i]);
    args.push_back(name(i, ".in.npy"));
    args.push_back(name(i, ".out.npy"));
  }
  if (const Ended e = run(python, kRun, args, log); !e.well) {
    fail(ErrorKind::verification, "ONNX Runtime", e.last_words);
  }
  std::vector<Array> results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    results.push_back(io::parse_npy(io::read_file(name(i, ".out.npy")), name(i, ".out.npy")));
  }
  return results;
}

}  // namespace freight::deploy::onnx
