// Sums and moves between devices by NCCL, on a fake one between processes: what they compute, what ends them, and that
// the fake finds what it is there to find.
#include "freight/backend/gpu/cuda/nccl.h"

#include <gtest/gtest.h>

#include <cstring>

#include "freight/backend/gpu/cuda/memory.h"

#include "tests/comm/ranks.h"
#include "tests/cuda/fake.h"

namespace freight::test {
namespace {

using comm::Comm;
using cuda::Memory;

// A rank's device, and the collectives of all devices.
struct Device {
  std::shared_ptr<Memory> memory;
  std::unique_ptr<DeviceCollectives> devices;
};

std::shared_ptr<Memory> memory_of(const Comm& c) {
  ::setenv("FAKE_CUDA_DEVICES", "8", 1);
  return std::make_shared<Memory>(*fake_driver(), c.rank());
}

std::string nccl_id_of(Comm& c) {
  std::string nccl_id(128, '\0');
  if (c.rank() == 0) nccl_id = cuda::new_nccl_id();
  c.broadcast(nccl_id.data(), 128, DType::u8, 0);
  return nccl_id;
}

Device join_devices(Comm& c, double timeout = 60, std::function<std::string()> lost = {}) {
  Device d{memory_of(c), nullptr};
  d.devices = cuda::join_nccl(d.memory, {.rank = c.rank(),
                                         .world = c.world(),
                                         .id = nccl_id_of(c),
                                         .timeout = timeout,
                                         .lost = std::move(lost),
                                         .others = [&c] { return c.whereabouts(); }});
  return d;
}

std::string faults() {
  fake_cuda_functions().flush();
  return join(fake().faults, "; ");
}

// A block of the device with these elements.
template <class T>
void* sent(Memory& memory, const std::vector<T>& values) {
  void* const at = memory.allocate(values.size() * sizeof(T));
  memory.upload(at, values.data(), values.size() * sizeof(T));
  return at;
}
template <class T>
std::vector<T> fetched(Memory& memory, const void* at, size_t count) {
  std::vector<T> values(count);
  memory.download(values.data(), at, count * sizeof(T));
  return values;
}

// The numbers are whole, so that every order of adding gives the same.
template <class T>
std::vector<T> numbers(int rank, int64_t count) {
  std::vector<T> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(static_cast<T>((i * 7 + rank * 3) % 50));
  return all;
}

template <class T>
std::string check_sums(const Device& d, const Comm& c, int64_t count) {
  const int world = c.world();
  Memory& m = *d.memory;
  const std::vector<T> mine = numbers<T>(c.rank(), count * world);
  std::vector<T> sum(mine.size());
  for (int r = 0; r < world; ++r) {
    const std::vector<T> theirs = numbers<T>(r, count * world);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i];
  }
  void* const all = sent(m, mine);
  d.devices->all_reduce(all, count * world, DTypeOf<T>::value);
  std::string said;
  if (fetched<T>(m, all, sum.size()) != sum) said += cat("all_reduce of ", DTypeOf<T>::value, "[", count, "]; ");
  m.release(all);
  return said;
}

template <class T>
std::string check_moves(const Device& d, const Comm& c, int64_t count) {
  const int world = c.world();
  Memory& m = *d.memory;
  std::vector<T> expected;
  for (int r = 0; r < world; ++r) {
    const std::vector<T> theirs = numbers<T>(r, count);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  const int root = world - 1;
  void *const mine = sent(m, numbers<T>(c.rank(), count)), *const given = sent(m, numbers<T>(c.rank(), count));
  void* const all = m.allocate(expected.size() * sizeof(T));
  d.devices->together([&] {
    d.devices->all_gather(mine, all, count, DTypeOf<T>::value);
    d.devices->broadcast(given, count, DTypeOf<T>::value, root);
  });
  std::string said;
  if (fetched<T>(m, all, expected.size()) != expected) said += cat("all_gather of ", DTypeOf<T>::value, "; ");
  if (fetched<T>(m, given, static_cast<size_t>(count)) != numbers<T>(root, count))
    said += cat("broadcast of ", DTypeOf<T>::value, "; ");
  for (void* p : {mine, given, all}) m.release(p);
  return said;
}

TEST(Nccl, DevicesSumAndMoveWhatTheirRanksHave) {
  for (const int world : {2, 3}) {
    expect_well(reports_of(world, [](Comm& c) {
      std::string said;
      {
        const Device d = join_devices(c);
        if (d.devices->name() != "NCCL 2.28.9") said += d.devices->name();
        for (const int64_t count : {1, 17, 4099}) {
          said += check_sums<float>(d, c, count) + check_sums<double>(d, c, count) + check_sums<int64_t>(d, c, count);
          said += check_moves<float>(d, c, count) + check_moves<uint8_t>(d, c, count);
        }
        for (const auto& refused : {DType::u8, DType::f16}) {
          try {
            d.devices->all_reduce(nullptr, 0, refused);
            said += cat("sums ", refused);
          } catch (const Error& e) {
            if (e.kind() != ErrorKind::usage) said += e.what();
          }
        }
      }
      if (fake().live_communicators != 0) said += "a communicator is left";
      return said + faults();
    }));
  }
}

// Returns the words of each rank about a wait for its device in which rank 1 takes no part.
std::vector<std::string> without_rank_one(double timeout, const std::function<std::string()>& lost) {
  return reports_of(2, [&](Comm& c) -> std::string {
    const Device d = join_devices(c, timeout, lost);
    std::string said = "nothing";
    if (c.rank() == 0) {
      void* const data = sent(*d.memory, std::vector<float>(8));
      for (int time = 0; time < 2; ++time) {  // the second finds the first one's end
        try {
          d.devices->all_reduce(data, 8, DType::f32);
          d.memory->wait();
        } catch (const Error& e) {
          said = cat(e.exit_code(), ": ", e.what());
        }
      }
    }
    c.barrier();
    return said;
  });
}

TEST(Nccl, ALostRankEndsTheWaitOfTheOthersDevices) {
  const auto start = std::chrono::steady_clock::now();
  const std::string said = without_rank_one(60, [] { return std::string("rank 1 is lost: it was killed"); })[0];
  EXPECT_TRUE(starts_with(said, "7: ")) << said;
  EXPECT_NE(said.find("rank 1 is lost: it was killed"), std::string::npos) << said;
  EXPECT_LT(seconds_since(start), 30);
}

TEST(Nccl, ADeviceThatDoesNotComeInTimeIsMissed) {
  const std::string said = without_rank_one(0.3, {})[0];
  EXPECT_TRUE(starts_with(said, "7: ")) << said;
  EXPECT_NE(said.find("not all devices reached the collective operation within 0.3 s; rank 1 was last in"),
            std::string::npos)
      << said;
}

TEST(Nccl, ARankThatDoesNotMeetIsMissed) {
  const std::vector<std::string> said = reports_of(2, [](Comm& c) -> std::string {
    std::string text = "nothing";
    const std::string nccl_id = nccl_id_of(c);
    try {
      if (c.rank() == 0) cuda::join_nccl(memory_of(c), {.rank = 0, .world = 2, .id = nccl_id, .timeout = 0.3});
    } catch (const Error& e) {
      text = cat(e.exit_code(), ": ", e.what());
    }
    c.barrier();
    return text;
  });
  EXPECT_TRUE(starts_with(said[0], "7: ")) << said[0];
  EXPECT_NE(said[0].find("within 0.3 s"), std::string::npos) << said[0];
}

TEST(Nccl, AnErrorThatItFindsLaterIsTold) {
  const Told fails("FAKE_NCCL_FAILS_AFTER", "1");
  for (const std::string& said : reports_of(2, [](Comm& c) -> std::string {
         const Device d = join_devices(c);
         void* const data = sent(*d.memory, std::vector<float>(8));
         try {
           for (int i = 0; i < 1000; ++i) {
             d.devices->all_reduce(data, 8, DType::f32);
             d.memory->wait();
           }
         } catch (const Error& e) {
           return cat(e.kind() == ErrorKind::device || e.kind() == ErrorKind::peer_lost ? "" : "another kind: ",
                      e.what());
         }
         return "nothing";
       })) {
    EXPECT_NE(said.find("remote process exited or there was a network error"), std::string::npos) << said;
    EXPECT_EQ(said.find("another kind"), std::string::npos) << said;
  }
}

// The fake finds what it is there to find. Each rank has a communicator of its own making.
class FakeNccl : public ::testing::Test {
 protected:
  struct Rank {
    Comm& comm;
    std::shared_ptr<Memory> memory;
    void* communicator = nullptr;
    std::vector<float> host = std::vector<float>(64);
    void *a = nullptr, *b = nullptr;  // 64 floats each, on the device
    std::string said = {};            // what went otherwise than it must, besides faults

    const cuda::Driver& driver() const { return memory->driver(); }
    int all_reduce(const void* from, void* to, size_t count, int type = cuda::nccl::kF32) {
      return cuda::nccl_functions().AllReduce(from, to, count, type, cuda::nccl::kSum, communicator, memory->stream());
    }
    // Asks until the last call is taken.
    void settle() const {
      for (int status = cuda::nccl::kInProgress; status == cuda::nccl::kInProgress;) {
        cuda::nccl_functions().CommGetAsyncError(communicator, &status);
      }
    }
  };
  // The faults that the fake finds at `misuse`, by rank.
  static std::vector<std::string> faults_of(const std::function<void(Rank&)>& misuse) {
    return reports_of(2, [&](Comm& c) {
      Rank r{c, memory_of(c)};
      const auto entered = r.memory->enter();
      cuda::nccl::UniqueId id;
      const std::string nccl_id = nccl_id_of(c);
      std::memcpy(id.bytes, nccl_id.data(), sizeof id);
      cuda::nccl::Config config;
      cuda::nccl_functions().CommInitRankConfig(&r.communicator, 2, id, c.rank(), &config);
      r.settle();
      r.a = sent(*r.memory, r.host);
      r.b = sent(*r.memory, r.host);
      r.memory->wait();
      r.said = faults();
      misuse(r);
      const std::string found = faults();
      return r.said + found;
    });
  }
};

TEST_F(FakeNccl, FindsNothingWhereNothingIsWrong) {
  expect_well(faults_of([](Rank& r) {
    r.all_reduce(r.a, r.b, 64);
    r.settle();
    r.memory->wait();
    cuda::nccl_functions().CommFinalize(r.communicator);
    cuda::nccl_functions().CommDestroy(r.communicator);
  }));
}

TEST_F(FakeNccl, FindsCallsThatDiffer) {
  const std::vector<std::string> counts =
      faults_of([](Rank& r) { r.all_reduce(r.a, r.b, r.comm.rank() == 0 ? 64 : 32); });
  EXPECT_NE(
      counts[0].find("rank 0 calls ncclAllReduce of 64 elements of type 7, rank 1 calls ncclAllReduce of 32 elem"),
      std::string::npos)
      << counts[0];
  const std::vector<std::string> types =
      faults_of([](Rank& r) { r.all_reduce(r.a, r.b, 16, r.comm.rank() == 0 ? cuda::nccl::kF32 : cuda::nccl::kI64); });
  EXPECT_NE(types[1].find("of type 4, rank 0 calls ncclAllReduce of 16 elements of type 7"), std::string::npos)
      << types[1];
  const std::vector<std::string> kinds = faults_of([](Rank& r) {
    if (r.comm.rank() == 0) {
      r.all_reduce(r.a, r.b, 16);
    } else {
      cuda::nccl_functions().Broadcast(r.a, r.b, 16, cuda::nccl::kF32, 0, r.communicator, r.memory->stream());
    }
  });
  EXPECT_NE(kinds[0].find("rank 1 calls ncclBroadcast of 16 elements of type 7 from rank 0"), std::string::npos)
      << kinds[0];
}

TEST_F(FakeNccl, FindsBuffersThatAreNotTheDevices) {
  for (const std::string& said : faults_of([](Rank& r) {
         r.all_reduce(r.host.data(), r.b, 64);
         void* const pinned = r.memory->allocate_host(256);
         r.all_reduce(r.a, pinned, 64);
         r.memory->release(pinned);
       })) {
    const std::string once = "ncclAllReduce: a buffer that is not the device's memory";
    EXPECT_EQ(said, once + "; " + once);
  }
}

TEST_F(FakeNccl, FindsBuffersThatAreInUse) {
  for (const std::string& said : faults_of([](Rank& r) {
         // Written by a queue that nothing orders with the collective's.
         r.memory->copy(r.a, r.b, 256, Queue::to_host);
         r.all_reduce(r.a, r.a, 64);
       })) {
    EXPECT_NE(said.find("ncclAllReduce: reads unordered with a write"), std::string::npos) << said;
  }
  for (const std::string& said : faults_of([](Rank& r) {
         r.all_reduce(r.a, r.b, 64);
         r.memory->copy(r.b, r.a, 256, Queue::to_host);
       })) {
    EXPECT_NE(said.find("copy: writes unordered with a write"), std::string::npos) << said;
  }
}

TEST_F(FakeNccl, FindsTwoCapturesOnOneThreadAndCallsBesideThem) {
  for (const std::string& said : faults_of([](Rank& r) {
         const cuda::Stream first = r.memory->stream(Queue::to_host), second = r.memory->stream(Queue::to_device);
         r.driver().capture_begin(first, cuda::kCaptureOfThread);
         if (r.driver().capture_begin(second, cuda::kCaptureOfThread) == 0) r.said += "a second capture begins; ";
         if (r.all_reduce(r.a, r.b, 64) == 0) r.said += "a sum is taken beside it; ";
         cuda::Graph graph = nullptr;
         r.driver().capture_end(first, &graph);
         r.driver().graph_destroy(graph);
       })) {
    EXPECT_EQ(said,
              "a second capture on one thread; a collective of another stream than those that this thread captures");
  }
}

// The graph of a sum of `a` to `b`, to be launched.
cuda::GraphExec sum_as_graph(const cuda::Driver& driver, cuda::Stream stream, const std::function<void()>& sum) {
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  driver.capture_begin(stream, cuda::kCaptureOfThread);
  sum();
  driver.capture_end(stream, &graph);
  driver.graph_instantiate(&exec, graph, 0);
  driver.graph_destroy(graph);
  return exec;
}

TEST_F(FakeNccl, FindsASumThatIsInAGraphOnOneRankAlone) {
  const std::vector<std::string> said = faults_of([](Rank& r) {
    const auto sum = [&r] {
      r.all_reduce(r.a, r.b, 64);
      r.settle();
    };
    if (r.comm.rank() == 1) return sum();
    const cuda::GraphExec exec = sum_as_graph(r.driver(), r.memory->stream(), sum);
    r.driver().graph_launch(exec, r.memory->stream());
    r.memory->wait();
    r.driver().graph_exec_destroy(exec);
  });
  EXPECT_NE(said[1].find("rank 1 calls ncclAllReduce of 64 elements of type 7, rank 0 calls ncclAllReduce of 64 "
                         "elements of type 7 in graph 1"),
            std::string::npos)
      << said[1];
}

TEST_F(FakeNccl, FindsGraphsThatWereNotCapturedTogether) {
  const std::vector<std::string> said = faults_of([](Rank& r) {
    const auto sum = [&r] {
      r.all_reduce(r.a, r.b, 64);
      r.settle();
    };
    std::vector<cuda::GraphExec> execs;
    for (int i = 0; i <= r.comm.rank(); ++i) execs.push_back(sum_as_graph(r.driver(), r.memory->stream(), sum));
    r.driver().graph_launch(execs.back(), r.memory->stream());
    r.memory->wait();
    for (const cuda::GraphExec e : execs) r.driver().graph_exec_destroy(e);
  });
  EXPECT_NE(
      said[0].find("rank 0 calls ncclAllReduce of 64 elements of type 7 in graph 1, rank 1 calls ncclAllReduce of "
                   "64 elements of type 7 in graph 2"),
      std::string::npos)
      << said[0];
}

TEST_F(FakeNccl, FindsACommunicatorThatIsDestroyedBeforeAGraphOfIt) {
  for (const std::string& said : faults_of([](Rank& r) {
         const cuda::GraphExec exec = sum_as_graph(r.driver(), r.memory->stream(), [&r] {
           r.all_reduce(r.a, r.b, 64);
           r.settle();
         });
         cuda::nccl_functions().CommFinalize(r.communicator);
         cuda::nccl_functions().CommDestroy(r.communicator);
         r.driver().graph_exec_destroy(exec);
       })) {
    EXPECT_EQ(said, "a communicator is destroyed while a graph has calls of it");
  }
}

TEST_F(FakeNccl, FindsAnEventOfACaptureThatIsAskedFor) {
  for (const std::string& said : faults_of([](Rank& r) {
         cuda::Event event = nullptr;
         r.driver().event_create(&event, cuda::kEventWithoutTiming);
         const cuda::GraphExec exec = sum_as_graph(r.driver(), r.memory->stream(), [&] {
           r.driver().event_record(event, r.memory->stream());
           r.driver().event_query(event);
         });
         r.driver().graph_exec_destroy(exec);
         r.driver().event_destroy(event);
       })) {
    EXPECT_EQ(said, "an event of a capture is asked whether it is done");
  }
}

TEST_F(FakeNccl, FindsCallsThatDoNotWaitForTheLastOne) {
  for (const std::string& said : faults_of([](Rank& r) {
         r.all_reduce(r.a, r.b, 64);
         if (r.all_reduce(r.a, r.b, 64) == 0) r.said += "a second call is taken; ";
       })) {
    EXPECT_EQ(said, "ncclAllReduce while the call before is in progress");
  }
}

TEST_F(FakeNccl, FindsACommunicatorThatIsDestroyedAtWork) {
  for (const std::string& said : faults_of([](Rank& r) {
         r.all_reduce(r.a, r.b, 64);
         r.settle();
         cuda::nccl_functions().CommFinalize(r.communicator);
         r.memory->wait();
       })) {
    EXPECT_EQ(said, "a communicator ends while it has work");
  }
}

TEST(Nccl, AnOldLibrarySaysWhatToInstall) {
  const std::string folders = cat(kFakeFolder, "/old:", kFakeFolder);
  const freight::testing::ScopedEnvironment old("FREIGHT_CUDA_LIBS", folders.c_str());
  for (const std::string& said : reports_of(1, [](Comm&) -> std::string {
         cuda::new_nccl_id();
         return "it is used";
       })) {
    EXPECT_NE(said.find("error 4: "), std::string::npos) << said;
    EXPECT_NE(said.find("/old/libnccl.so.2 has no ncclCommInitRankConfig: it is older than 2.14"), std::string::npos)
        << said;
  }
}

}  // namespace
}  // namespace freight::test
