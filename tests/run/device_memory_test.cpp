// Storage with a copy on a device: bytes cross over when the other side asks for them and only then. The device is a
// piece of the heap that counts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "freight/base/array.h"
#include "freight/base/device_memory.h"

namespace freight {
namespace {

// Copies when it is asked, as late as a device might.
class Late final : public DeviceRead {
 public:
  Late(const void* from, size_t bytes) : from_(from), bytes_(bytes) {}
  void take(void* to) override { std::memcpy(to, from_, bytes_); }

 private:
  const void* from_;
  size_t bytes_;
};

class CountingMemory final : public DeviceMemory {
 public:
  void* allocate(size_t bytes) override { return ++blocks, std::malloc(bytes + 1); }
  void* allocate_host(size_t bytes) override { return ++pinned, allocate(bytes); }
  size_t free_bytes() const override { return 0; }
  void release(void* address) noexcept override { --blocks, std::free(address); }
  void upload(void* to, const void* from, size_t bytes) override { ++uploads, std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { ++downloads, std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes, Queue) override { std::memcpy(to, from, bytes); }
  std::unique_ptr<DeviceRead> read_later(const void* from, size_t bytes) override {
    return std::make_unique<Late>(from, bytes);
  }
  std::unique_ptr<DeviceMark> mark() override { return nullptr; }  // nobody asks
  void wait() override {}

  int blocks = 0, pinned = 0, uploads = 0, downloads = 0;
};

int& int_at(void* address) { return *static_cast<int*>(address); }

TEST(DeviceStorage, CrossesOverOnlyWhereTheOtherSideHasNewerBytes) {
  const auto memory = std::make_shared<CountingMemory>();
  {
    const auto block = Storage::allocate(sizeof(int));
    int_at(block->data()) = 1;
    void* there = block->on_device(memory, DeviceAccess::read);
    EXPECT_EQ(int_at(there), 1);
    EXPECT_EQ(block->on_device(memory, DeviceAccess::update), there);
    EXPECT_EQ(memory->uploads, 1);
    int_at(there) = 2;
    block->on_device(memory, DeviceAccess::update);
    EXPECT_EQ(memory->downloads, 0);
    EXPECT_EQ(int_at(block->data()), 2);
    EXPECT_EQ(int_at(block->data()), 2);
    EXPECT_EQ(memory->downloads, 1);
    block->on_device(memory, DeviceAccess::write);  // the host's bytes are not wanted
    EXPECT_EQ(memory->uploads, 1);
    int_at(there) = 3;
    block->on_device(memory, DeviceAccess::read);  // the device has the newest
    EXPECT_EQ(memory->uploads, 1);
    EXPECT_EQ(int_at(block->data()), 3);
  }
  EXPECT_EQ(memory->blocks, 0);
}

TEST(DeviceStorage, ACopyOfEachDeviceLivesAsLongAsTheBlock) {
  const auto first = std::make_shared<CountingMemory>(), second = std::make_shared<CountingMemory>();
  auto block = Storage::allocate(sizeof(int));
  int_at(block->on_device(first, DeviceAccess::write)) = 7;
  EXPECT_EQ(int_at(block->on_device(second, DeviceAccess::read)), 7);
  EXPECT_EQ(first->blocks, 1);  // a thread may still read there
  EXPECT_EQ(second->blocks, 1);
  block.reset();
  EXPECT_EQ(first->blocks, 0);
  EXPECT_EQ(second->blocks, 0);
}

TEST(DeviceStorage, MovesFromTheDeviceToPinnedMemory) {
  const auto memory = std::make_shared<CountingMemory>();
  const auto block = Storage::allocate(sizeof(int));
  int_at(block->on_device(memory, DeviceAccess::write)) = 7;
  void* pinned = block->on_device(memory, DeviceAccess::update, DeviceSide::host);
  EXPECT_EQ(int_at(pinned), 7);
  EXPECT_EQ(memory->pinned, 1);
  EXPECT_EQ(memory->blocks, 1);
  EXPECT_EQ(block->on_device(memory, DeviceAccess::read, DeviceSide::host), pinned);
  int_at(pinned) = 8;
  EXPECT_EQ(int_at(block->data()), 8);
}

TEST(DeviceStorage, IsReadLaterFromTheSideThatHasTheNewestBytes) {
  const auto memory = std::make_shared<CountingMemory>();
  const auto block = Storage::allocate(2 * sizeof(int));
  const auto second = [&] { return block->read_later(sizeof(int), sizeof(int)); };
  const auto taken = [](DeviceRead& read) {
    int value = 0;
    return read.take(&value), value;
  };
  (&int_at(block->data()))[1] = 5;
  const auto before = second();
  (&int_at(block->data()))[1] = 6;
  EXPECT_EQ(taken(*before), 5);
  (&int_at(block->on_device(memory, DeviceAccess::update)))[1] = 7;
  EXPECT_EQ(taken(*second()), 7);
  EXPECT_EQ(memory->downloads, 0);
  (&int_at(block->data()))[1] = 8;  // the device's bytes are old from here on
  EXPECT_EQ(taken(*second()), 8);
}

}  // namespace
}  // namespace freight
