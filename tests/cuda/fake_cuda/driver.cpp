// The functions of libcuda that Freight calls, with the fake device behind them.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include "tests/cuda/fake_cuda/interfaces.h"
#include "tests/cuda/fake_cuda/kernels.h"
#include "tests/cuda/fake_cuda/machine.h"

namespace {

using fake::machine;
using namespace fake::driver;
using Address = unsigned long long;

// Never destroyed: the program may let go of the device later than this library's statics.
auto& g_modules = *new std::vector<fake::ModuleState*>;
auto& g_actors = *new std::set<size_t>;  // of the streams there are
int g_context;
// A primary context that was let go of by everybody is gone, on all threads, though its next one lies where it did.
int64_t g_contexts = 0;
thread_local int64_t t_context = -1;  // which of them is current

bool lost() { return machine().lost(); }
int count_of_devices() {
  const char* text = std::getenv("FAKE_CUDA_DEVICES");
  return text ? std::atoi(text) : 1;
}

// What every call that works on the device answers first.
bool in_context() {
  if (t_context != g_contexts) machine().fault("a call without a current context");
  return t_context == g_contexts;
}
int ready() { return !in_context() ? kInvalidContext : lost() ? kIllegalAddress : kOk; }
void* pointer(Address a) { return reinterpret_cast<void*>(a); }

// A text for whoever wants to know how a process left the device.
__attribute__((destructor)) void report() {
  const char* path = std::getenv("FAKE_CUDA_REPORT");
  if (!path) return;
  const FakeCuda& t = machine().told;
  std::string name = path;  // "%d" stands for the process
  if (const size_t at = name.find("%d"); at != std::string::npos) name.replace(at, 2, std::to_string(getpid()));
  if (FILE* out = std::fopen(name.c_str(), "w")) {
    std::fprintf(out, "faults %zu\ngraphs %lld\nblocks %lld\npinned %lld\nmodules %lld\nstreams %lld\nevents %lld\n",
                 t.faults.size(), static_cast<long long>(t.live_graphs), static_cast<long long>(t.live_blocks),
                 static_cast<long long>(t.live_pinned), static_cast<long long>(t.live_modules),
                 static_cast<long long>(t.live_streams), static_cast<long long>(t.live_events));
    std::fprintf(out, "contexts %lld\ngraph_launches %lld\n", static_cast<long long>(t.live_contexts),
                 static_cast<long long>(t.graph_launches));
    std::fprintf(out, "library_products %lld\nlibrary_convolutions %lld\ndescriptions %lld\n",
                 static_cast<long long>(t.library_products), static_cast<long long>(t.library_convolutions),
                 static_cast<long long>(t.live_descriptions));
    std::fprintf(out, "collectives %lld\ncommunicators %lld\ncopies_to_host %lld\n",
                 static_cast<long long>(t.collectives), static_cast<long long>(t.live_communicators),
                 static_cast<long long>(t.copies_to_host));
    std::fprintf(out, "graph_collectives %lld\ncollectives_hidden %lld\n", static_cast<long long>(t.graph_collectives),
                 static_cast<long long>(t.collectives_hidden));
    for (const std::string& f : t.faults) std::fprintf(out, "fault: %s\n", f.c_str());
    std::fclose(out);
  }
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return std::getenv("FAKE_CUDA_NO_DEVICE") ? kNoDevice : kOk; }
int cuDriverGetVersion(int* version) {
  const char* text = std::getenv("FAKE_CUDA_VERSION");
  *version = text ? std::atoi(text) : 13000;
  return kOk;
}
int cuGetErrorName(int status, const char** name) {
  *name = status == kNoMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
                              : (status == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE");
  return kOk;
}
int cuGetErrorString(int, const char** text) {
  *text = "as the fake driver was told";
  return kOk;
}
int cuDeviceGetCount(int* count) {
  *count = count_of_devices();
  return kOk;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return index >= 0 && index < count_of_devices() ? kOk : kInvalidDevice;
}
int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "Fake GPU");
  return kOk;
}
int cuDeviceGetAttribute(int* value, int what, int) {
  const char* text = std::getenv("FAKE_CUDA_ARCHITECTURE");
  const int architecture = text ? std::atoi(text) : 90;
  *value = what == kMajor ? architecture / 10 : what == kMinor ? architecture % 10 : what == kProcessors ? 4 : 0;
  return kOk;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = static_cast<size_t>(machine().told.total_bytes);
  return kOk;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  std::memset(uuid, 0xab, 16);
  uuid[15] = static_cast<unsigned char>(0xab + device);
  return kOk;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<size_t>(size), "0000:%02x:00.0", device + 1);
  return kOk;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &g_context;
  ++machine().told.live_contexts;
  return kOk;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  if (--machine().told.live_contexts == 0) ++g_contexts;
  return kOk;
}
int cuCtxSetCurrent(void* context) {
  t_context = context ? g_contexts : -1;
  return kOk;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (const int status = ready()) return status;
  *free = static_cast<size_t>(machine().told.free_bytes);
  *total = static_cast<size_t>(machine().told.total_bytes);
  return kOk;
}
int cuMemAlloc_v2(Address* address, size_t bytes) {
  if (const int status = ready()) return status;
  if (machine().forbidden_in_capture("cuMemAlloc")) return kInCapture;
  *address = machine().allocate(bytes);
  return *address ? kOk : kNoMemory;
}
int cuMemFree_v2(Address address) {
  if (!in_context()) return kInvalidContext;
  if (machine().forbidden_in_capture("cuMemFree")) return kInCapture;
  return machine().release(address) ? kOk : kInvalid;
}
int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  if (const int status = ready()) return status;
  if (machine().forbidden_in_capture("cuMemHostAlloc")) return kInCapture;
  *address = machine().pin(bytes);
  return kOk;
}
int cuMemFreeHost(void* address) {
  if (!in_context()) return kInvalidContext;
  machine().unpin(address);
  return kOk;
}
int cuMemcpyAsync(Address to, Address from, size_t bytes, fake::StreamState* stream) {
  if (const int status = ready()) return status;
  const fake::Kind kind = machine().is_pinned(to)     ? fake::Kind::to_host
                          : machine().is_pinned(from) ? fake::Kind::to_device
                                                      : fake::Kind::other;
  if (kind == fake::Kind::to_device) machine().told.uploaded_bytes += static_cast<int64_t>(bytes);
  machine().enqueue(
      stream, [=] { machine().copy(pointer(to), pointer(from), bytes); }, kind);
  return kOk;
}
int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, fake::StreamState* stream) {
  if (const int status = ready()) return status;
  machine().enqueue(stream, [=] {
    if (lost()) return;
    machine().at_work = "cuMemsetD8Async";
    machine().write(pointer(to), static_cast<unsigned>(bytes));
    std::memset(pointer(to), value, bytes);
  });
  return kOk;
}
int cuStreamCreate(fake::StreamState** stream, unsigned) {
  if (const int status = ready()) return status;
  size_t actor = 1;
  while (g_actors.count(actor)) ++actor;
  if (actor >= fake::kFirstBranch) return kInvalid;
  g_actors.insert(actor);
  *stream = new fake::StreamState{actor};
  ++machine().told.live_streams;
  return kOk;
}
int cuStreamDestroy_v2(fake::StreamState* stream) {
  if (!in_context()) return kInvalidContext;
  machine().flush();
  g_actors.erase(stream->actor);
  delete stream;
  --machine().told.live_streams;
  return kOk;
}
int cuStreamSynchronize(fake::StreamState* stream) {
  if (!in_context()) return kInvalidContext;
  if (machine().forbidden_in_capture("cuStreamSynchronize")) return kInCapture;
  machine().host_waits(stream);
  return lost() ? kIllegalAddress : kOk;
}
int cuStreamWaitEvent(fake::StreamState* stream, fake::EventState* event, unsigned) {
  if (const int status = ready()) return status;
  machine().wait(stream, event);
  return kOk;
}
int cuEventCreate(fake::EventState** event, unsigned) {
  if (const int status = ready()) return status;
  *event = new fake::EventState;
  ++machine().told.live_events;
  return kOk;
}
int cuEventDestroy_v2(fake::EventState* event) {
  if (!in_context()) return kInvalidContext;
  machine().flush();
  delete event;
  --machine().told.live_events;
  return kOk;
}
int cuEventRecord(fake::EventState* event, fake::StreamState* stream) {
  if (const int status = ready()) return status;
  machine().record(event, stream);
  return kOk;
}
int cuEventSynchronize(fake::EventState* event) {
  if (!in_context()) return kInvalidContext;
  if (machine().forbidden_in_capture("cuEventSynchronize")) return kInCapture;
  machine().host_waits(event);
  return lost() ? kIllegalAddress : kOk;
}
int cuEventQuery(fake::EventState* event) {  // from any thread
  if (!in_context()) return kInvalidContext;
  if (event->capture != 0) machine().fault("an event of a capture is asked whether it is done");
  return event->pending == 0 ? kOk : kNotReady;
}
int cuModuleLoadData(fake::ModuleState** module, const void* image) {
  if (const int status = ready()) return status;
  if (machine().forbidden_in_capture("cuModuleLoadData")) return kInCapture;
  const std::string text = static_cast<const char*>(image);
  if (text.find("KERNEL(") == std::string::npos) return kBadImage;
  *module = new fake::ModuleState;
  (*module)->text = text;
  g_modules.push_back(*module);
  ++machine().told.module_loads;
  ++machine().told.live_modules;
  return kOk;
}
int cuModuleUnload(fake::ModuleState*) {
  if (!in_context()) return kInvalidContext;
  if (machine().told.live_graphs > 0) machine().fault("a module is unloaded while a graph may use it");
  --machine().told.live_modules;
  return kOk;
}
int cuModuleGetFunction(fake::KernelState** kernel, fake::ModuleState* module, const char* name) {
  // Only the name is looked for here; all modules are compiled together at the first launch.
  if (module->text.find(std::string(") void ") + name + "(") == std::string::npos) return kNotFound;
  auto* k = new fake::KernelState;
  k->name = name;
  *kernel = k;
  return kOk;
}
int cuLaunchKernel(fake::KernelState* kernel, unsigned groups, unsigned gy, unsigned gz, unsigned lanes, unsigned ly,
                   unsigned lz, unsigned shared, fake::StreamState* stream, void** parameters, void**) {
  if (const int status = ready()) return status;
  if (groups == 0 || lanes == 0 || lanes > 1024 || gy != 1 || gz != 1 || ly != 1 || lz != 1 || shared != 0) {
    machine().fault(kernel->name + ": the launch has an impossible size");
    return kInvalid;
  }
  if (machine().idle) return kOk;
  if (!kernel->run) {
    for (fake::ModuleState* m : g_modules) {
      if (const std::unique_ptr<fake::KernelState> found{fake::find_kernel(m, kernel->name, g_modules)})
        *kernel = *found;
    }
  }
  // Parameters are captured by value.
  auto values = std::make_shared<std::vector<std::vector<char>>>();
  for (size_t i = 0; i < kernel->sizes.size(); ++i) {
    const char* from = static_cast<const char*>(parameters[i]);
    values->emplace_back(from, from + kernel->sizes[i]);
  }
  if (!machine().captured) ++machine().told.launches;
  machine().enqueue(stream, [=] {
    if (lost()) return;
    std::vector<void*> table;
    for (std::vector<char>& v : *values) table.push_back(v.data());
    fake::execute(*kernel, groups, lanes, table.data());
  });
  return kOk;
}
int cuStreamBeginCapture_v2(fake::StreamState* stream, int mode) {
  if (const int status = ready()) return status;
  if (mode != kThreadLocalCapture) machine().fault("a capture that other threads' calls break");
  if (machine().captured) {
    machine().fault("a second capture on one thread");
    return kInCapture;
  }
  machine().begin_capture(stream);
  return kOk;
}
int cuGraphDestroy(fake::GraphState* graph);
int cuStreamEndCapture(fake::StreamState* stream, fake::GraphState** graph) {
  if (machine().captured != stream) return kInvalid;
  *graph = new fake::GraphState;
  ++machine().told.live_graphs;
  if (machine().end_capture(**graph)) return kOk;
  cuGraphDestroy(*graph);
  *graph = nullptr;
  return kUnjoined;
}
int cuGraphInstantiateWithFlags(fake::GraphState** exec, fake::GraphState* graph, unsigned long long) {
  if (const int status = ready()) return status;
  *exec = new fake::GraphState(*graph);
  ++machine().told.live_graphs;
  return kOk;
}
int cuGraphUpload(fake::GraphState*, fake::StreamState*) { return ready(); }
int cuGraphLaunch(fake::GraphState* exec, fake::StreamState* stream) {
  if (const int status = ready()) return status;
  ++machine().told.graph_launches;
  machine().launch(*exec, stream);
  return kOk;
}
int cuGraphDestroy(fake::GraphState* graph) {
  delete graph;
  --machine().told.live_graphs;
  return kOk;
}
int cuGraphExecDestroy(fake::GraphState* exec) { return cuGraphDestroy(exec); }
}
