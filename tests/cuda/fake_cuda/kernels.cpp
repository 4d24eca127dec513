// See kernels.h. Lanes that meet at barriers are contexts of their own, each run to its next barrier in turn.
#include "tests/cuda/fake_cuda/kernels.h"

#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "tests/cuda/fake_cuda/machine.h"

namespace fake {

namespace {

struct Index {
  unsigned x;
};
// As in prelude.h.
struct Hooks {
  void (*read)(const void*, unsigned);
  void (*write)(void*, unsigned);
  void (*barrier)();
  void (*shuffle)(unsigned long long* bits, int mask);
  Index block, thread, threads;
};

constexpr size_t kStack = 64 << 10;
struct Lane {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(kStack);
  bool done = false;
  unsigned shuffles = 0;
};
auto& g_lanes = *new std::vector<Lane>;
ucontext_t g_scheduler;
unsigned g_lane = 0;
unsigned long long g_exchange[2][1024];
const KernelState* g_kernel = nullptr;
void** g_parameters = nullptr;
Hooks g_hooks;

void leave_lane() { swapcontext(&g_lanes[g_lane].context, &g_scheduler); }

void shuffle(unsigned long long* bits, int mask) {
  auto* exchange = g_exchange[g_lanes[g_lane].shuffles++ % 2];
  exchange[g_lane] = *bits;
  leave_lane();
  *bits = exchange[g_lane ^ static_cast<unsigned>(mask)];
}

void lane_body() {
  g_kernel->run(g_parameters);
  g_lanes[g_lane].done = true;
  leave_lane();
}

std::string in_quotes(const std::string& text) { return "'" + text + "'"; }

std::string content(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The sanitizer's hooks are in the prelude: its library is not linked.
constexpr const char* kCompile = FAKE_CUDA_CXX " -std=c++17 -w -O1 -fPIC -fsanitize=thread -c ";

// A name for a text and everything that it is compiled with.
std::string key_of(const std::string& text) {
  static const std::string kBefore = kCompile + content(FAKE_CUDA_PRELUDE);
  char key[32];
  std::snprintf(key, sizeof key, "%016zx_%zx", std::hash<std::string>()(kBefore + text), text.size());
  return key;
}

// Compiled kernels stay in the build folder for later tests and runs: KEY.so is a link to the library that holds the
// kernel of this key, often among others that were compiled with it.
std::string kept(const std::string& key) { return std::string(FAKE_CUDA_KERNELS) + "/" + key + ".so"; }

void* open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library) reinterpret_cast<void (*)(Hooks*)>(dlsym(library, "fake_set_hooks"))(&g_hooks);
  return library;
}

void compile(const std::map<std::string, std::string>& texts) {  // by their keys
  std::filesystem::create_directories(FAKE_CUDA_KERNELS);
  std::string folder = FAKE_CUDA_KERNELS "/XXXXXX";
  if (!mkdtemp(folder.data())) std::abort();
  const std::string base = folder + "/k", log = base + ".log";
  {
    std::ofstream out(base + ".cpp");
    out << "#include \"" << FAKE_CUDA_PRELUDE << "\"\n";
    for (const auto& [key, text] : texts) {
      const size_t at = text.rfind(") void "), open = text.find('(', at + 7);
      const std::string function = "m" + key + "::" + text.substr(at + 7, open - at - 7);
      out << "namespace m" << key << " {\n" << text << "}\n";
      out << "extern \"C\" void run_" << key << "(void** p) { fake_run(" << function << ", p); }\n";
      out << "extern \"C\" int sizes_" << key << "(size_t* s) { return fake_sizes(" << function << ", s); }\n";
    }
  }
  const std::string command = kCompile + in_quotes(base + ".cpp") + " -o " + in_quotes(base + ".o") + " > " +
                              in_quotes(log) + " 2>&1 && " + FAKE_CUDA_CXX + " -shared " + in_quotes(base + ".o") +
                              " -o " + in_quotes(base + ".so") + " >> " + in_quotes(log) + " 2>&1";
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "fake driver: kernels do not compile for the host:\n%s\n",
                 content(log).substr(0, 3000).c_str());
    std::abort();
  }
  const std::string library = folder + ".so";
  std::filesystem::rename(base + ".so", library);
  for (const auto& [key, text] : texts) {
    std::error_code another_process_was_first;
    std::filesystem::create_symlink(library, kept(key), another_process_was_first);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

// Opens the libraries of all modules that have none yet.
void load(std::vector<ModuleState*>& all) {
  g_hooks.read = [](const void* p, unsigned n) { machine().read(p, n); };
  g_hooks.write = [](void* p, unsigned n) { machine().write(p, n); };
  g_hooks.barrier = leave_lane;
  g_hooks.shuffle = shuffle;
  std::map<std::string, std::string> fresh;
  for (ModuleState* m : all) {
    if (m->library) continue;
    m->key = key_of(m->text);
    if (!std::filesystem::exists(kept(m->key))) fresh.emplace(m->key, m->text);
  }
  if (!fresh.empty()) compile(fresh);
  for (ModuleState* m : all) {
    if (m->library) continue;
    m->library = open_library(kept(m->key));
    if (!m->library) {
      std::fprintf(stderr, "fake driver: %s\n", dlerror());
      std::abort();
    }
  }
}

}  // namespace

KernelState* find_kernel(ModuleState* module, const std::string& name, std::vector<ModuleState*>& all) {
  const size_t at = module->text.rfind(") void " + name + "(");
  if (at == std::string::npos) return nullptr;
  if (!module->library) load(all);
  auto* k = new KernelState;
  k->name = name;
  const std::string body = module->text.substr(at);
  k->meets = body.find("BARRIER") != std::string::npos || body.find("SHARE(") != std::string::npos;
  k->run = reinterpret_cast<void (*)(void**)>(dlsym(module->library, ("run_" + module->key).c_str()));
  size_t sizes[512];  // of 4 KiB, the most that a kernel of NVIDIA takes
  const int count = reinterpret_cast<int (*)(size_t*)>(dlsym(module->library, ("sizes_" + module->key).c_str()))(sizes);
  k->sizes.assign(sizes, sizes + count);
  return k;
}

void execute(const KernelState& kernel, unsigned groups, unsigned lanes, void** parameters) {
  Machine& m = machine();
  ++m.told.kernels;
  m.at_work = kernel.name;
  g_hooks.threads.x = lanes;
  g_kernel = &kernel;
  g_parameters = parameters;
  if (g_lanes.size() < lanes) g_lanes.resize(lanes);
  for (unsigned group = 0; group < groups; ++group) {
    g_hooks.block.x = group;
    if (!kernel.meets) {
      for (unsigned lane = 0; lane < lanes; ++lane) {
        g_hooks.thread.x = lane;
        kernel.run(parameters);
      }
      continue;
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
      Lane& l = g_lanes[lane];
      l.done = false;
      l.shuffles = 0;
      getcontext(&l.context);
      l.context.uc_stack.ss_sp = l.stack.data();
      l.context.uc_stack.ss_size = kStack;
      l.context.uc_link = nullptr;
      makecontext(&l.context, lane_body, 0);
    }
    for (unsigned left = lanes; left > 0;) {
      const unsigned before = left;
      for (g_lane = 0; g_lane < lanes; ++g_lane) {
        if (g_lanes[g_lane].done) continue;
        g_hooks.thread.x = g_lane;
        swapcontext(&g_scheduler, &g_lanes[g_lane].context);
        if (g_lanes[g_lane].done) --left;
      }
      if (left > 0 && before != left) m.fault(kernel.name + ": some lanes end where others wait for them");
    }
  }
}

}  // namespace fake
