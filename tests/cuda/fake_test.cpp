// The fake driver finds what it is there to find.
#include <gtest/gtest.h>

#include "tests/cuda/fake.h"

namespace freight::test {
namespace {

using cuda::check;

class FakeDriver : public ::testing::Test {
 protected:
  FakeDriver() : d_(*fake_driver()) {
    int index = 0;
    EXPECT_EQ(d_.device_get(&index, 0), 0);
    EXPECT_EQ(d_.context_retain(&context_, index), 0);
    EXPECT_EQ(d_.context_set(context_), 0);
    for (cuda::Stream& s : streams_) EXPECT_EQ(d_.stream_create(&s, cuda::kNonBlockingStream), 0);
    EXPECT_EQ(d_.event_create(&event_, cuda::kEventWithoutTiming), 0);
    EXPECT_EQ(d_.allocate(&a_, 64), 0);
    EXPECT_EQ(d_.allocate(&b_, 64), 0);
    fake().faults.clear();
  }
  ~FakeDriver() override {
    for (const cuda::Stream s : streams_) d_.stream_destroy(s);
    d_.event_destroy(event_);
    d_.release(a_);
    d_.release(b_);
    d_.context_release(0);
  }
  // The faults so far, which are then forgotten.
  static std::string faults() {
    fake_cuda_functions().flush();
    const std::string text = join(fake().faults, "; ");
    fake().faults.clear();
    return text;
  }
  static cuda::Address number(const void* host) { return reinterpret_cast<cuda::Address>(host); }
  const cuda::Driver& d_;
  cuda::Context context_ = nullptr;
  cuda::Stream streams_[2] = {};
  cuda::Event event_ = nullptr;
  cuda::Address a_ = 0, b_ = 0;
  char host_[64] = {};
};

TEST_F(FakeDriver, AReadOfWhatNothingWroteIsAFault) {
  d_.copy(b_, a_, 64, streams_[0]);
  EXPECT_NE(faults().find("copy: reads what nothing has written at byte 0 of a block of 64"), std::string::npos);
}

TEST_F(FakeDriver, AccessesOfTwoStreamsNeedAnEventBetweenThem) {
  d_.copy(a_, number(host_), 64, streams_[0]);
  d_.copy(b_, a_, 64, streams_[1]);
  EXPECT_NE(faults().find("reads unordered with a write"), std::string::npos);
  d_.copy(a_, number(host_), 64, streams_[0]);
  EXPECT_NE(faults().find("writes unordered with a read"), std::string::npos);
  d_.copy(b_, number(host_), 64, streams_[0]);
  EXPECT_NE(faults().find("writes unordered with a write"), std::string::npos);

  d_.event_record(event_, streams_[1]);
  d_.stream_wait_event(streams_[0], event_, 0);
  d_.copy(a_, number(host_), 64, streams_[0]);
  d_.copy(b_, number(host_), 64, streams_[0]);
  EXPECT_EQ(faults(), "");
  d_.stream_wait(streams_[0]);  // the host in between orders them, too
  d_.copy(b_, a_, 64, streams_[1]);
  EXPECT_EQ(faults(), "");
}

TEST_F(FakeDriver, WhatCaptureForbidsIsAFault) {
  ASSERT_EQ(d_.capture_begin(streams_[0], cuda::kCaptureOfThread), 0);
  cuda::Address more = 0;
  EXPECT_NE(d_.allocate(&more, 64), 0);
  EXPECT_NE(d_.stream_wait(streams_[0]), 0);
  cuda::Module module = nullptr;
  EXPECT_NE(d_.module_load(&module, "KERNEL("), 0);
  cuda::Graph graph = nullptr;
  ASSERT_EQ(d_.capture_end(streams_[0], &graph), 0);
  d_.graph_destroy(graph);
  const std::string said = faults();
  for (const char* what : {"cuMemAlloc", "cuStreamSynchronize", "cuModuleLoadData"}) {
    EXPECT_NE(said.find(std::string(what) + " while a stream is captured"), std::string::npos) << said;
  }
}

// Two streams in one capture: the second copies what the first made, and the first takes it back.
TEST_F(FakeDriver, BranchesOfAGraphNeedAnEdgeBetweenThem) {
  const auto capture = [&](bool fork_late, bool join) {
    cuda::Graph graph = nullptr;
    EXPECT_EQ(d_.capture_begin(streams_[0], cuda::kCaptureOfThread), 0);
    if (!fork_late) d_.event_record(event_, streams_[0]);
    d_.copy(a_, number(host_), 64, streams_[0]);
    if (fork_late) d_.event_record(event_, streams_[0]);
    d_.stream_wait_event(streams_[1], event_, 0);
    d_.copy(b_, a_, 64, streams_[1]);
    d_.event_record(event_, streams_[1]);
    if (join) d_.stream_wait_event(streams_[0], event_, 0);
    const cuda::Status status = d_.capture_end(streams_[0], &graph);
    EXPECT_EQ(status == 0, join);
    if (status != 0) return;
    cuda::GraphExec exec = nullptr;
    EXPECT_EQ(d_.graph_instantiate(&exec, graph, 0), 0);
    d_.graph_destroy(graph);
    for (int launch = 0; launch < 2; ++launch) d_.graph_launch(exec, streams_[0]);
    d_.stream_wait(streams_[0]);
    d_.graph_exec_destroy(exec);
  };
  capture(true, true);
  EXPECT_EQ(faults(), "");
  capture(false, true);
  EXPECT_NE(faults().find("reads unordered with a write"), std::string::npos);
  capture(true, false);
  EXPECT_EQ(faults(), "a captured stream is not joined");
}

TEST_F(FakeDriver, PinnedMemoryIsWatchedToo) {
  void* pinned = nullptr;
  ASSERT_EQ(d_.allocate_host(&pinned, 64, 0), 0);
  d_.copy(a_, number(pinned), 64, streams_[0]);  // the host may have written it
  d_.copy(number(pinned), a_, 64, streams_[0]);
  EXPECT_EQ(faults(), "");
  d_.copy(b_, number(pinned), 64, streams_[1]);
  EXPECT_NE(faults().find("reads unordered with a write at byte 0 of a pinned block of 64"), std::string::npos);
  d_.release_host(pinned);
}

TEST_F(FakeDriver, ABufferReusedBeforeItsTransferGivesTheNewBytes) {
  host_[0] = 1;
  d_.copy(a_, number(host_), 64, streams_[0]);
  host_[0] = 2;  // too early
  char back[64] = {};
  d_.copy(number(back), a_, 64, streams_[0]);
  d_.stream_wait(streams_[0]);
  EXPECT_EQ(back[0], 2);
  faults();
}

}  // namespace
}  // namespace freight::test
