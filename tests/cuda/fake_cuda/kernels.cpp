// See kernels.h. Lanes that meet at barriers are contexts of their own, each run to its next barrier in turn.
#include "tests/cuda/fake_cuda/kernels.h"

#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

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

void compile(std::vector<ModuleState*>& all) {
  static int runs = 0;
  char folder[] = "/tmp/fake-cuda-XXXXXX";
  if (!mkdtemp(folder)) std::abort();
  const std::string base = std::string(folder) + "/k";
  std::vector<ModuleState*> fresh;
  {
    std::ofstream out(base + ".cpp");
    out << "#include \"" << FAKE_CUDA_PRELUDE << "\"\n";
    for (ModuleState* m : all) {
      if (m->library) continue;
      m->number = ++runs;
      const size_t at = m->text.rfind(") void "), open = m->text.find('(', at + 7);
      const std::string name = m->text.substr(at + 7, open - at - 7), space = "m" + std::to_string(m->number);
      out << "namespace " << space << " {\n" << m->text << "}\n";
      out << "extern \"C\" void run_" << m->number << "(void** p) { fake_run(" << space << "::" << name << ", p); }\n";
      out << "extern \"C\" int sizes_" << m->number << "(size_t* s) { return fake_sizes(" << space << "::" << name
          << ", s); }\n";
      fresh.push_back(m);
    }
  }
  const std::string log = base + ".log";
  // The sanitizer's hooks are in the prelude: its library is not linked.
  const std::string command = std::string(FAKE_CUDA_CXX) + " -std=c++17 -w -O1 -fPIC -fsanitize=thread -c " + base +
                              ".cpp -o " + base + ".o > " + in_quotes(log) + " 2>&1 && " + FAKE_CUDA_CXX + " -shared " +
                              base + ".o -o " + base + ".so >> " + in_quotes(log) + " 2>&1";
  const int status = std::system(command.c_str());
  void* library = status == 0 ? dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) {
    std::ifstream in(log);
    const std::string said((std::istreambuf_iterator<char>(in)), {});
    std::fprintf(stderr, "fake driver: kernels do not compile for the host: %s\n%s\n", dlerror(),
                 said.substr(0, 3000).c_str());
    std::abort();
  }
  g_hooks.read = [](const void* p, unsigned n) { machine().read(p, n); };
  g_hooks.write = [](void* p, unsigned n) { machine().write(p, n); };
  g_hooks.barrier = leave_lane;
  g_hooks.shuffle = shuffle;
  reinterpret_cast<void (*)(Hooks*)>(dlsym(library, "fake_set_hooks"))(&g_hooks);
  for (ModuleState* m : fresh) m->library = library;
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace

KernelState* find_kernel(ModuleState* module, const std::string& name, std::vector<ModuleState*>& all) {
  const size_t at = module->text.rfind(") void " + name + "(");
  if (at == std::string::npos) return nullptr;
  if (!module->library) compile(all);
  auto* k = new KernelState;
  k->name = name;
  const std::string body = module->text.substr(at);
  k->meets = body.find("BARRIER") != std::string::npos || body.find("SHARE(") != std::string::npos;
  const std::string number = std::to_string(module->number);
  k->run = reinterpret_cast<void (*)(void**)>(dlsym(module->library, ("run_" + number).c_str()));
  size_t sizes[512];  // of 4 KiB, the most that a kernel of NVIDIA takes
  const int count = reinterpret_cast<int (*)(size_t*)>(dlsym(module->library, ("sizes_" + number).c_str()))(sizes);
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
