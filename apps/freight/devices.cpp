// `freight devices`: lists the devices of this machine, and why others are missing. Allocates nothing on a device
// unless it measures what they reach.
#include <algorithm>
#include <cstdio>

#include "command.h"
#include "freight/backend/backend.h"
#include "freight/backend/cpu/lapack.h"
#include "freight/backend/gpu/cuda/cuda.h"
#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/base/cpu_info.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/bench/timing.h"
#include "freight/io/json_library.h"
#include "options.h"

namespace freight::app {

namespace {

// Kinds of devices that this machine does not have, and the reason.
struct Absent {
  const char* kind;
  std::string reason;
};

nlohmann::ordered_json to_json(const OpenClDevice& d, const std::string& name) {
  return {{"name", name},
          {"model", d.model},
          {"platform", d.platform},
          {"version", d.version},
          {"driver", d.driver},
          {"compute_units", d.compute_units},
          {"memory_bytes", d.memory_bytes},
          {"f64", d.f64}};
}

nlohmann::ordered_json to_json(const CudaDevice& d, const std::string& name) {
  nlohmann::ordered_json out = {{"name", name},
                                {"model", d.model},
                                {"architecture", d.architecture},
                                {"multiprocessors", d.multiprocessors},
                                {"memory_bytes", d.memory_bytes},
                                {"memory_available_bytes", nullptr},
                                {"pci", d.pci},
                                {"uuid", d.uuid},
                                {"driver", d.driver},
                                {"usable", d.why_not.empty()}};
  if (d.memory_free_bytes >= 0) out["memory_available_bytes"] = d.memory_free_bytes;
  if (!d.why_not.empty()) out["reason"] = d.why_not;
  return out;
}

// The rates that a device reaches in our own plans.
struct Measured {
  bench::Roofs f32;
  double bf16_flops = 0;
  std::string why_no_bf16;  // if it gains nothing
};

Measured measure(const std::string& device, double seconds) {
  Measured m;
  m.f32 = bench::measure_roofs(device, DType::f32, seconds);
  m.why_no_bf16 = backend(device).why_unsupported(DType::bf16);
  if (m.why_no_bf16.empty()) m.bf16_flops = bench::measure_roofs(device, DType::bf16, seconds).flops;
  return m;
}

nlohmann::ordered_json to_json(const Measured& m) {
  nlohmann::ordered_json out = {{"matmul_f32_flops_per_s", m.f32.flops},
                                {"matmul_bf16_flops_per_s", nullptr},
                                {"copy_bytes_per_s", m.f32.bytes},
                                {"launch_s", m.f32.launch}};
  if (m.why_no_bf16.empty()) {
    out["matmul_bf16_flops_per_s"] = m.bf16_flops;
  } else {
    out["why_no_bf16"] = m.why_no_bf16;
  }
  return out;
}

void print(const Measured& m) {
  const std::string bf16 = m.why_no_bf16.empty() ? cat(fixed(m.bf16_flops * 1e-9, 1), " GFLOP/s in bf16")
                                                 : cat("none in bf16 (", m.why_no_bf16, ")");
  std::printf("        measured: matmul %s GFLOP/s in f32, %s; copy %s GB/s read and written; launch %s us\n",
              fixed(m.f32.flops * 1e-9, 1).c_str(), bf16.c_str(), fixed(m.f32.bytes * 1e-9, 1).c_str(),
              fixed(m.f32.launch * 1e6, 2).c_str());
}

}  // namespace

int devices_command(const Args& args) {
  bool as_json = false, measured = false;
  double seconds = 1;
  Options options("devices", "Lists the devices of this machine, and why others are missing.");
  options.add("--measure", &measured, "measure each: matmuls in f32 and bf16, copies, launches");
  options.add("--seconds", &seconds, "time for each measurement, about", {.min = 0.01, .max = 600});
  options.add("--json", &as_json, "print a JSON object: devices, absent");
  if (options.parse(args) == Options::Outcome::done) return 0;

  const CpuInfo cpu = cpu_info();
  const OpenClDevices opencl = opencl_devices();
  const CudaDevices cuda = cuda_devices();
  std::vector<Absent> absent;
  if (cuda.devices.empty()) absent.push_back({"cuda", cuda.why_none});
  if (opencl.devices.empty()) absent.push_back({"opencl", opencl.why_none});
  if (as_json) {
    nlohmann::ordered_json out;
    out["devices"] = {{{"name", "cpu"},
                       {"model", cpu.model},
                       {"cores", cpu.cores},
                       {"threads", thread_count()},
                       {"instructions", cpu.instructions},
                       {"l1_bytes", cpu.l1_bytes},
                       {"l2_bytes", cpu.l2_bytes},
                       {"l3_bytes", cpu.l3_bytes},
                       {"memory_bytes", cpu.memory_bytes},
                       {"memory_available_bytes", cpu.memory_available_bytes},
                       {"lapack", cpu::lapack_text()}}};
    for (size_t i = 0; i < cuda.devices.size(); ++i) {
      out["devices"].push_back(to_json(cuda.devices[i], cat("cuda:", i)));
    }
    for (size_t i = 0; i < opencl.devices.size(); ++i) {
      out["devices"].push_back(to_json(opencl.devices[i], cat("opencl:", i)));
    }
    for (auto& d : out["devices"]) {
      if (measured && d.value("usable", true)) d["measured"] = to_json(measure(d["name"], seconds));
    }
    out["absent"] = nlohmann::ordered_json::array();
    out["cuda_compiler"] = cuda.compiler;
    out["cuda_products"] = cuda.products;
    out["cuda_convolutions"] = cuda.convolutions;
    out["cuda_factorizations"] = cuda.factorizations;
    out["cuda_collectives"] = cuda.collectives;
    for (const Absent& a : absent) out["absent"].push_back({{"name", a.kind}, {"reason", a.reason}});
    std::printf("%s\n", out.dump(2).c_str());
    return 0;
  }
  const auto bytes = [](int64_t n) { return n ? human_bytes(static_cast<double>(n)) : std::string("unknown"); };
  std::printf("cpu     %s\n", cpu.model.c_str());
  std::printf("        %d cores, %d compute threads\n", cpu.cores, thread_count());
  std::printf("        instructions %s\n", join(cpu.instructions, " ").c_str());
  std::printf("        caches L1 %s, L2 %s, L3 %s\n", bytes(cpu.l1_bytes).c_str(), bytes(cpu.l2_bytes).c_str(),
              bytes(cpu.l3_bytes).c_str());
  std::printf("        memory %s, available %s\n", bytes(cpu.memory_bytes).c_str(),
              bytes(cpu.memory_available_bytes).c_str());
  std::printf("        eigenvalues and singular values by %s\n", cpu::lapack_text().c_str());
  if (measured) print(measure("cpu", seconds));
  for (size_t i = 0; i < cuda.devices.size(); ++i) {
    const CudaDevice& d = cuda.devices[i];
    std::printf("%-7s %s, %s, %lld multiprocessors\n", cat("cuda:", i).c_str(), d.model.c_str(), d.architecture.c_str(),
                static_cast<long long>(d.multiprocessors));
    std::printf("        memory %s, available %s\n", bytes(d.memory_bytes).c_str(),
                bytes(std::max<int64_t>(d.memory_free_bytes, 0)).c_str());
    std::printf("        driver %s, PCI %s, %s\n", d.driver.c_str(), d.pci.c_str(), d.uuid.c_str());
    if (d.why_not.empty()) {
      std::printf("        kernels by %s\n", cuda.compiler.c_str());
      std::printf("        matmuls by %s\n", cuda.products.c_str());
      std::printf("        convolutions by %s\n", cuda.convolutions.c_str());
      std::printf("        factorizations by %s\n", cuda.factorizations.c_str());
      std::printf("        all-reduce by %s\n", cuda.collectives.c_str());
      if (measured) print(measure(cat("cuda:", i), seconds));
    } else {
      std::printf("        cannot be used: %s\n", d.why_not.c_str());
    }
  }
  for (size_t i = 0; i < opencl.devices.size(); ++i) {
    const OpenClDevice& d = opencl.devices[i];
    std::printf("%-7s %s\n", cat("opencl:", i).c_str(), d.model.c_str());
    std::printf("        platform %s, %s, driver %s\n", d.platform.c_str(), d.version.c_str(), d.driver.c_str());
    std::printf("        %lld compute units, memory %s, %s\n", static_cast<long long>(d.compute_units),
                bytes(d.memory_bytes).c_str(), d.f64 ? "f64" : "no f64");
    if (measured) print(measure(cat("opencl:", i), seconds));
  }
  for (const Absent& a : absent) std::printf("%-7s none: %s\n", a.kind, a.reason.c_str());
  return 0;
}

}  // namespace freight::app
