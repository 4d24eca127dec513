// Checkpoints of vgg16 with the moments of its optimizer (1.1 GB): how long training pauses, and the rates of saving
// and loading, against writing (with sync) and reading as many bytes plainly in the same directory; by turns, with the
// system's cache of the files dropped before each reading. usage: checkpoint [DIR [ROUNDS [MODEL]]]. Prints JSON: each
// round, and of the best figures the ratios.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "freight/base/error.h"
#include "freight/optim/create.h"
#include "freight/train/checkpoint.h"

namespace {
using namespace freight;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

void forget(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  if (fd < 0) return;
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

// The tensors' bytes as one file, then a sync; returns the bytes.
size_t write_plainly(const std::string& path, const std::vector<const io::SafeTensors*>& files) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) fail(ErrorKind::runtime, path, "cannot write");
  size_t total = 0;
  for (const io::SafeTensors* file : files) {
    for (const auto& [name, array] : file->tensors) {
      for (size_t done = 0; done < array.bytes();) {
        const ssize_t n =
            ::write(fd, static_cast<const char*>(array.raw()) + done, std::min<size_t>(array.bytes() - done, 16 << 20));
        if (n <= 0) fail(ErrorKind::runtime, path, "cannot write");
        done += static_cast<size_t>(n);
      }
      total += array.bytes();
    }
  }
  if (::fsync(fd) != 0 || ::close(fd) != 0) fail(ErrorKind::runtime, path, "cannot sync");
  return total;
}

void read_plainly(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  std::vector<char> block(16 << 20);
  while (::read(fd, block.data(), block.size()) > 0) {
  }
  ::close(fd);
}

int bench(const std::string& dir, int rounds, const std::string& name) {
  store::Bundle bundle;
  bundle.model = models::create(name);
  bundle.preprocessing.input = bundle.model.input.shape;
  const auto optimizer = optim::create("sgd", *bundle.model.net, {.lr = 0.1, .momentum = 0.9});
  train::RunState state;
  for (const auto& v : optimizer->state_dict()) state.variables.push_back({"optimizer." + v.name, v.variable});
  const std::string checkpoint = dir + "/checkpoints/step-0", plain = dir + "/plain";
  fs::create_directories(dir);
  double pause = 1e9, save = 1e9, load = 1e9, plain_write = 1e9, plain_read = 1e9;
  size_t bytes = 0;
  train::Snapshot taken = train::snapshot(bundle, state);  // makes the moments, too
  std::printf("{\"model\": \"%s\", \"rounds\": [", name.c_str());
  for (int i = 0; i < rounds; ++i) {
    auto t = Clock::now();
    taken = train::snapshot(bundle, state, std::move(taken));
    const double paused = since(t);
    t = Clock::now();
    bytes = write_plainly(plain, {&taken.model, &taken.state});
    const double wrote = since(t);
    t = Clock::now();
    train::save_checkpoint(checkpoint, taken);
    const double saved = since(t);
    forget(plain);
    for (const char* file : {"/model.safetensors", "/state.safetensors"}) forget(checkpoint + file);
    t = Clock::now();
    read_plainly(plain);
    const double got = since(t);
    t = Clock::now();
    train::Found found = train::find_checkpoint(checkpoint, "");
    const double read = since(t);
    train::restore(*found.checkpoint, bundle.model, state.variables);
    const double loaded = since(t);
    std::printf(
        "%s\n  {\"pause_s\": %.3f, \"plain_write_s\": %.3f, \"save_s\": %.3f, \"plain_read_s\": %.3f, \"read_s\": "
        "%.3f, \"load_s\": %.3f}",
        i ? "," : "", paused, wrote, saved, got, read, loaded);
    std::fflush(stdout);
    pause = std::min(pause, paused), save = std::min(save, saved), load = std::min(load, loaded);
    plain_write = std::min(plain_write, wrote), plain_read = std::min(plain_read, got);
  }
  const auto rate = [&](double seconds) { return static_cast<double>(bytes) / seconds * 1e-6; };
  std::printf(
      "],\n \"bytes\": %zu, \"pause_s\": %.3f,\n \"plain_write_mb_per_s\": %.0f, \"save_mb_per_s\": %.0f, "
      "\"save_ratio\": %.2f,\n \"plain_read_mb_per_s\": %.0f, \"load_mb_per_s\": %.0f, \"load_ratio\": %.2f}\n",
      bytes, pause, rate(plain_write), rate(save), plain_write / save, rate(plain_read), rate(load), plain_read / load);
  fs::remove_all(dir + "/checkpoints");
  fs::remove(plain);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return bench(argc > 1 ? argv[1] : "checkpoint-bench", argc > 2 ? std::atoi(argv[2]) : 3,
                 argc > 3 ? argv[3] : "vgg16");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
