// A cluster's MPI moves the bytes: sends and receives of MPI 5's standard binary interface, loaded at run time. Nothing
// is linked and no header is needed: its functions and the constants that the standard fixes are declared here
// (MPI 5.0, chapter 20, "Application Binary Interface").
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "freight/base/clock.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/library.h"
#include "freight/comm/mesh_internal.h"
#include "freight/comm/network_comm.h"

namespace freight::comm {

namespace {

#define FREIGHT_MPI_FUNCTIONS(X)                                            \
  X(MPI_Initialized, int, int*)                                             \
  X(MPI_Init_thread, int, int*, char***, int, int*)                         \
  X(MPI_Finalize, int, void)                                                \
  X(MPI_Comm_rank, int, void*, int*)                                        \
  X(MPI_Comm_size, int, void*, int*)                                        \
  X(MPI_Comm_set_errhandler, int, void*, void*)                             \
  X(MPI_Bcast, int, void*, int, void*, int, void*)                          \
  X(MPI_Isend_c, int, const void*, int64_t, void*, int, int, void*, void**) \
  X(MPI_Irecv_c, int, void*, int64_t, void*, int, int, void*, void**)       \
  X(MPI_Test, int, void**, int*, void*)                                     \
  X(MPI_Cancel, int, void**)                                                \
  X(MPI_Request_free, int, void**)                                          \
  X(MPI_Error_string, int, int, char*, int*)

struct MpiFunctions {
  FREIGHT_MPI_FUNCTIONS(FREIGHT_POINTER)
};

// The standard's handles are small numbers in pointers; code of any MPI knows them.
void* handle(uintptr_t number) { return reinterpret_cast<void*>(number); }  // NOLINT(performance-no-int-to-ptr)
void* comm_world() { return handle(0x101); }
void* errors_return() { return handle(0x143); }
void* bytes_type() { return handle(0x247); }
constexpr int kThreadSerialized = 2048, kMostErrorText = 512;
// Tags go at least so far in every MPI. Messages of one pair and tag keep their order, hence numbers may come again.
constexpr uint64_t kTags = 32768;
// A waiting rank asks again at once for so long, in seconds, and then after sleeping.
constexpr double kAskOften = 100e-6;
constexpr auto kAskAgain = std::chrono::microseconds(50);

class Mpi {
 public:
  Mpi() {
    std::vector<std::string> names;
    if (const std::string named = env::get("FREIGHT_MPI"); !named.empty()) {
      names.push_back(named);
    } else {
      for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        if (const std::string folder = env::get(name); !folder.empty())
          names.push_back(folder + "/lib/libmpi_abi.so.1");
      }
      names.emplace_back("libmpi_abi.so.1");
    }
    library_ = load_library(names,
                            "an MPI with the standard ABI of MPI 5, as by pip install mpich, or name its "
                            "libmpi_abi.so.1 by FREIGHT_MPI",
                            "", {FREIGHT_MPI_FUNCTIONS(FREIGHT_SYMBOL)}, &functions_,
                            "not an MPI with the standard ABI of MPI 5", LibraryKind::system);
    if (!library_.why.empty()) fail(ErrorKind::device, "MPI", "cannot be used: ", library_.why);
    int begun = 0, level = 0;
    check(functions_.MPI_Initialized(&begun));
    if (!begun) check(functions_.MPI_Init_thread(nullptr, nullptr, kThreadSerialized, &level));
    check(functions_.MPI_Comm_set_errhandler(comm_world(), errors_return()));
  }
  const MpiFunctions* operator->() const { return &functions_; }
  const std::string& path() const { return library_.path; }
  void check(int code) const {
    if (code == 0) return;
    std::array<char, kMostErrorText + 1> text{};
    int length = 0;
    functions_.MPI_Error_string(code, text.data(), &length);
    fail(ErrorKind::runtime, "MPI", text.data());
  }

 private:
  MpiFunctions functions_;
  Library library_;
};

// Begun once in a process, as MPI has it.
const Mpi& mpi() {
  static const Mpi& loaded = *new Mpi;
  return loaded;
}

class MpiMessage final : public Mesh::Message {
 public:
  MpiMessage(Mesh::Way way, int peer, void* at, int64_t bytes, uint64_t slot)
      : way_(way), peer_(peer), tag_(static_cast<int>(slot % kTags)), at_(at), bytes_(bytes) {}
  ~MpiMessage() override {
    if (!under_way_) return;
    if (way_ == Mesh::Way::receive) mpi()->MPI_Cancel(&request_);
    mpi()->MPI_Request_free(&request_);
  }
  MpiMessage(const MpiMessage&) = delete;
  MpiMessage& operator=(const MpiMessage&) = delete;

  void begin() override {
    mpi().check(way_ == Mesh::Way::send
                    ? mpi()->MPI_Isend_c(at_, bytes_, bytes_type(), peer_, tag_, comm_world(), &request_)
                    : mpi()->MPI_Irecv_c(at_, bytes_, bytes_type(), peer_, tag_, comm_world(), &request_));
    under_way_ = true;
  }
  bool is_done_within(double seconds) override {
    const auto start = std::chrono::steady_clock::now();
    while (under_way_) {
      int done = 0;
      mpi().check(mpi()->MPI_Test(&request_, &done, nullptr));
      if (done) under_way_ = false;
      const double waited = seconds_since(start);
      if (done || woken_ || waited > seconds) break;
      if (waited < kAskOften) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(kAskAgain);
      }
    }
    return !under_way_ && !woken_;
  }
  void wake() noexcept override { woken_ = true; }

 private:
  Mesh::Way way_;
  int peer_, tag_;
  void* at_;
  int64_t bytes_;
  void* request_ = nullptr;
  bool under_way_ = false;
  std::atomic<bool> woken_ = false;
};

class MpiMesh final : public Mesh {
 public:
  explicit MpiMesh(int world) : world_(world) {}
  std::vector<std::string> make_cards(const std::string&) override {
    return std::vector<std::string>(static_cast<size_t>(world_), "-");  // MPI knows where its ranks are
  }
  void connect(int, const std::string&) override {}
  void close() noexcept override {}
  std::unique_ptr<Message> message(Way way, int peer, void* at, int64_t bytes, uint64_t slot) override {
    return std::make_unique<MpiMessage>(way, peer, at, bytes, slot);
  }
  // A process that ends after a fault does not come here: it would wait for those that are lost.
  void leave() noexcept override { mpi()->MPI_Finalize(); }

 private:
  int world_;
};

// The address at which the watchdog's connections meet, which rank 0 tells by MPI.
struct Announcement {
  std::array<char, 64> address{}, token{};
  int32_t port = 0;
};

void broadcast_announcement(Announcement& a) {
  mpi().check(mpi()->MPI_Bcast(&a, static_cast<int>(sizeof(a)), bytes_type(), 0, comm_world()));
}

}  // namespace

std::unique_ptr<Comm> join_mpi(NetworkPlan plan) {
  int rank = 0, world = 1;
  mpi().check(mpi()->MPI_Comm_rank(comm_world(), &rank));
  mpi().check(mpi()->MPI_Comm_size(comm_world(), &world));
  if (rank != plan.rank || world != plan.world) {
    fail(ErrorKind::usage, "MPI", mpi().path(), " says rank ", rank, " of ", world,
         ", the launcher's variables say rank ", plan.rank, " of ", plan.world, ": need the mpiexec of that MPI");
  }
  Announcement announced;
  if (world > 1 && rank == 0) {
    plan.token = new_secret();
    plan.port = 0;
    plan.listening = [&](const std::string& address, int port) {
      address.copy(announced.address.data(), announced.address.size() - 1);
      plan.token.copy(announced.token.data(), announced.token.size() - 1);
      announced.port = port;
      broadcast_announcement(announced);
    };
  } else if (world > 1) {
    broadcast_announcement(announced);
    plan.host = announced.address.data();
    plan.token = announced.token.data();
    plan.port = announced.port;
  }
  return join_network(plan, std::make_unique<MpiMesh>(world));
}

}  // namespace freight::comm
