// A bounded queue between two threads.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

namespace freight::app {

template <class T>
class Handover {
 public:
  explicit Handover(size_t ahead) : ahead_(ahead) {}

  // Waits while `ahead` elements are in the queue; false if nothing more will be taken.
  bool put(T thing) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return things_.size() < ahead_ || closed_; });
    if (closed_) return false;
    things_.push_back(std::move(thing));
    changed_.notify_all();
    return true;
  }
  // Ends the queue: what was put is still taken, and then `fault` is thrown.
  void end(std::exception_ptr fault = nullptr) {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    fault_ = std::move(fault);
    changed_.notify_all();
  }
  // Nothing more will be taken.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    things_.clear();
    changed_.notify_all();
  }
  // Waits for the next thing; false at the end.
  bool take(T& thing) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !things_.empty() || ended_ || closed_; });
    if (things_.empty()) {
      if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
      return false;
    }
    thing = std::move(things_.front());
    things_.pop_front();
    changed_.notify_all();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> things_;
  const size_t ahead_;
  bool ended_ = false, closed_ = false;
  std::exception_ptr fault_;
};

}  // namespace freight::app
