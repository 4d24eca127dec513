// Storage: copies on devices, whose bytes cross over when another side asks for them.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "freight/base/array.h"
#include "freight/base/device_memory.h"
#include "freight/base/error.h"

using namespace freight;

namespace {

// A device whose memory is the host's, which counts its blocks and what crosses over.
class HostDevice final : public DeviceMemory {
 public:
  void* allocate(size_t bytes) override {
    ++blocks;
    return std::malloc(bytes);
  }
  void* allocate_host(size_t bytes) override { return allocate(bytes); }
  void release(void* address) noexcept override {
    --blocks;
    std::free(address);
  }
  size_t free_bytes() const override { return size_t{1} << 30; }
  void upload(void* to, const void* from, size_t bytes) override {
    ++uploads;
    std::memcpy(to, from, bytes);
  }
  void download(void* to, const void* from, size_t bytes) override {
    ++downloads;
    std::memcpy(to, from, bytes);
  }
  void copy(void* to, const void* from, size_t bytes, Queue) override { std::memcpy(to, from, bytes); }
  std::unique_ptr<DeviceRead> read_later(const void*, size_t) override { return nullptr; }
  std::unique_ptr<DeviceMark> mark() override { return nullptr; }
  void wait() override {}

  std::atomic<int> blocks{0}, uploads{0}, downloads{0};
};

int& number(void* block) { return *static_cast<int*>(block); }

TEST(Storage, EachDeviceKeepsItsCopyAndGetsTheNewestBytes) {
  const auto first = std::make_shared<HostDevice>(), second = std::make_shared<HostDevice>();
  const auto s = Storage::allocate(sizeof(int));
  number(s->data()) = 1;
  void* const a = s->on_device(first, DeviceAccess::read);
  void* const b = s->on_device(second, DeviceAccess::read);
  EXPECT_EQ(number(a), 1);
  EXPECT_EQ(number(b), 1);
  EXPECT_EQ(s->on_device(first, DeviceAccess::read), a);
  EXPECT_EQ(first->uploads + second->uploads, 2);

  number(s->on_device(first, DeviceAccess::update)) = 2;
  EXPECT_EQ(number(s->on_device(second, DeviceAccess::read)), 2);
  EXPECT_EQ(number(s->on_device(first, DeviceAccess::read)), 2);
  number(s->on_device(second, DeviceAccess::write)) = 3;
  EXPECT_EQ(number(s->on_device(first, DeviceAccess::update)), 3);
  number(a) = 4;
  EXPECT_EQ(number(s->data()), 4);
  EXPECT_EQ(number(s->on_device(second, DeviceAccess::read)), 4);
  EXPECT_EQ(first->downloads, 2);
  EXPECT_EQ(second->downloads, 1);
}

TEST(Storage, TheHostsWritesReachEveryDevice) {
  const auto first = std::make_shared<HostDevice>(), second = std::make_shared<HostDevice>();
  const auto s = Storage::allocate(sizeof(int));
  s->on_device(first, DeviceAccess::read);
  number(s->on_device(second, DeviceAccess::write)) = 5;
  number(s->data()) += 1;
  EXPECT_EQ(number(s->on_device(first, DeviceAccess::read)), 6);
  EXPECT_EQ(number(s->on_device(second, DeviceAccess::read)), 6);
}

TEST(Storage, ACopyMovesBetweenTheSidesOfADeviceAndIsReleasedWithItsBlock) {
  const auto device = std::make_shared<HostDevice>();
  auto s = Storage::allocate(sizeof(int));
  number(s->on_device(device, DeviceAccess::write)) = 7;
  EXPECT_EQ(number(s->on_device(device, DeviceAccess::read, DeviceSide::host)), 7);
  EXPECT_EQ(device->blocks, 1);
  s.reset();
  EXPECT_EQ(device->blocks, 0);
}

TEST(Storage, ThreadsThatReadAtOnceGetOneCopy) {
  for (int round = 0; round < 50; ++round) {
    const auto device = std::make_shared<HostDevice>();
    const auto s = Storage::allocate(sizeof(int));
    number(s->data()) = 9;
    std::vector<void*> seen(4);
    std::vector<std::thread> threads;
    for (void*& address : seen) {
      threads.emplace_back([&] { address = s->on_device(device, DeviceAccess::read); });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(seen, std::vector<void*>(4, seen[0]));
    EXPECT_EQ(number(seen[0]), 9);
    EXPECT_EQ(device->blocks, 1);
    EXPECT_EQ(device->uploads, 1);
  }
}

}  // namespace
