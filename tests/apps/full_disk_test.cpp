// Disks that are full while a command writes: the file that was there stays as it was, nothing else is left, and the
// message names the file. Sizes are drawn from a seed; bench/results/2026-11-27-hardened-3.txt has the sweep of 40
// each.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <filesystem>
#include <random>

#include "freight/base/strings.h"
#include "npy_folder.h"
#include "run_command.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;

rlim_t g_most = 0;  // bytes of a file, for the command that is started next
void limit_files() {
  const rlimit most{g_most, g_most};
  ::setrlimit(RLIMIT_FSIZE, &most);
}

Ran run_limited(const std::vector<std::string>& args, size_t most) {
  g_most = most;
  return Running(args, "", {}, limit_files).finish();
}

// Commands that write one file, `path`, each.
struct Writer {
  const char* name;
  std::vector<std::string> (*args)(const std::string& from, const std::string& path);
  const char* file;
};

const std::vector<Writer> kWriters = {
    {"export",
     [](const std::string& from, const std::string& path) {
       return std::vector<std::string>{"export", from + "/run/model.safetensors", "-o", path};
     },
     "m.onnx"},
    {"report",
     [](const std::string& from, const std::string& path) {
       return std::vector<std::string>{"report", from + "/run", "--no-examples", "-o", path};
     },
     "r.html"},
    {"predict",
     [](const std::string& from, const std::string& path) {
       return std::vector<std::string>{"predict", from + "/table/model.safetensors", from + "/t.csv", "--csv", "-o",
                                       path};
     },
     "p.csv"},
    {"predict --npy",
     [](const std::string& from, const std::string& path) {
       return std::vector<std::string>{"predict", from + "/table/model.safetensors", from + "/t.csv", "--npy", path};
     },
     "p.npy"},
    {"models convert",
     [](const std::string& from, const std::string& path) {
       return std::vector<std::string>{"models", "convert", from + "/run/model.safetensors", path, "--plain"};
     },
     "w.safetensors"},
    {"linalg",
     [](const std::string& from, const std::string& path) {
       return std::vector<std::string>{"linalg", "inv", from + "/a.npy", "-o", path};
     },
     "x.npy"},
    {"linalg of several",
     [](const std::string& from, const std::string& path) {
       return std::vector<std::string>{"linalg", "svd", from + "/a.npy", "-o", path};
     },
     "x.npz"},
    {"run",
     [](const std::string& from, const std::string& path) {
       return std::vector<std::string>{
           "run", from + "/g.graph", "--input", "a=" + from + "/a.npy", "-o", fs::path(path).parent_path().string()};
     },
     "out0.npy"},
    {"bench compare",
     [](const std::string&, const std::string& path) {
       return std::vector<std::string>{"bench",         "compare",   "--model", "mlp",       "--devices",
                                       "cpu",           "--batches", "8",       "--seconds", "0.01",
                                       "--input-shape", "1x28x28",   "--html",  path};
     },
     "b.html"}};

class FullDisk : public NpyFolder {
 protected:
  void SetUp() override {
    std::string rows = "x,y\n";
    std::mt19937 random(7);
    for (int i = 0; i < 4000; ++i) rows += cat(random() % 1000, ",", random() % 1000, "\n");
    write_file(dir_ + "/t.csv", rows);
    std::vector<double> a(64 * 64);
    for (size_t i = 0; i < a.size(); ++i) a[i] = i % 65 == 0 ? 70 : static_cast<double>(random() % 8);
    npy("a", a, {64, 64});
    write_file(dir_ + "/g.graph",
               "graph {\n  %0 = input \"a\" : f64[64,64]\n  %1 = relu(%0) : f64[64,64]\n  return %1\n}\n");
    ASSERT_EQ(run_freight({"train", "digits", "--model", "mlp", "--max-steps", "2", "-q", "-o", dir_ + "/run"}).code,
              0);
    ASSERT_EQ(
        run_freight({"train", dir_ + "/t.csv", "--target", "y", "--model", "linear", "-q", "-o", dir_ + "/table"}).code,
        0);
    fs::create_directory(out_);
  }
  void expect_old(const Writer& w, const Ran& r, const std::string& folder, const std::string& what) {
    const std::string path = cat(folder, "/", w.file);
    EXPECT_EQ(r.code, 1) << w.name << " " << what << "\n" << r.err;
    EXPECT_NE(r.err.find(path), std::string::npos) << w.name << " " << what << "\n" << r.err;
    EXPECT_EQ(read_file(path), "old") << w.name << " " << what;
    for (const auto& entry : fs::directory_iterator(folder)) {
      EXPECT_EQ(entry.path().filename().string(), w.file) << w.name << " " << what << ": left";
    }
  }
  // Its size as it is written; the folder is empty again.
  size_t whole(const Writer& w, const std::string& folder) {
    const std::string path = cat(folder, "/", w.file);
    const Ran r = run_freight(w.args(dir_, path));
    EXPECT_EQ(r.code, 0) << w.name << "\n" << r.err;
    const size_t size = r.code == 0 ? fs::file_size(path) : 0;
    write_file(path, "old");
    return size;
  }
  const std::string out_ = dir_ + "/out";
};

TEST_F(FullDisk, AFileThatBecomesTooLargeIsNotReplaced) {
  std::mt19937 random(36);
  for (const Writer& w : kWriters) {
    const size_t size = whole(w, out_);
    constexpr size_t kMessages = 4096;  // what the command says goes to files, too
    ASSERT_GT(size, kMessages * 2) << w.name;
    const size_t nearly = size - size / 8;  // pages of measurements are not always of one size
    const size_t drawn = kMessages + random() % (nearly - kMessages);
    for (const size_t most : {kMessages, drawn, nearly}) {
      expect_old(w, run_limited(w.args(dir_, cat(out_, "/", w.file)), most), out_, cat(most, " of ", size));
    }
    const Ran r = run_limited(w.args(dir_, cat(out_, "/", w.file)), std::max<size_t>(2 * size, 65536));
    EXPECT_EQ(r.code, 0) << w.name << "\n" << r.err;
    EXPECT_NE(read_file(cat(out_, "/", w.file)), "old") << w.name;
    fs::remove_all(cat(out_, "/", w.file));
  }
}

TEST_F(FullDisk, AFullFileSystemKeepsTheFileThatWasThere) {
  constexpr size_t kPage = 4096;
  std::mt19937 random(37);
  for (const Writer& w : kWriters) {
    const size_t pages = whole(w, out_) / kPage + 1;
    fs::remove(cat(out_, "/", w.file));
    for (const size_t free : {size_t{1}, 1 + random() % (pages - 1)}) {
      if (free >= pages) continue;
      // The old file takes a page, and its folder none.
      if (::mount("tmpfs", out_.c_str(), "tmpfs", 0, cat("size=", (free + 1) * kPage).c_str()) != 0) {
        GTEST_SKIP() << "no file system can be mounted here: need root";
      }
      write_file(cat(out_, "/", w.file), "old");
      const Ran r = run_freight(w.args(dir_, cat(out_, "/", w.file)));
      expect_old(w, r, out_, cat(free, " of ", pages, " pages"));
      EXPECT_NE(r.err.find("No space left on device"), std::string::npos) << r.err;
      ASSERT_EQ(::umount(out_.c_str()), 0);
    }
  }
}

// The rows of --npy wait in a file of TMPDIR. When the last of them found no room there, an array without its rows was
// written, and the command ended with 0.
TEST_F(FullDisk, AFullTemporaryFolderMakesNoFile) {
  const std::string small = dir_ + "/small", path = out_ + "/p.npy";
  fs::create_directory(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=4096") != 0) {
    GTEST_SKIP() << "no file system can be mounted here: need root";
  }
  write_file(small + "/all", std::string(4096, 'x'));
  write_file(dir_ + "/few.csv", "x\n1\n2\n3\n");
  write_file(path, "old");
  const Ran r = run_freight({"predict", dir_ + "/table/model.safetensors", dir_ + "/few.csv", "--npy", path}, "",
                            {"TMPDIR=" + small});
  EXPECT_EQ(::umount(small.c_str()), 0);
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find(path), std::string::npos) << r.err;
  EXPECT_EQ(read_file(path), "old");
}

}  // namespace
}  // namespace freight::test
