// A bounded queue between two threads.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

namespace freight::app {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Waits while `capacity` elements are in the queue; false if nothing more will be taken.
  bool put(T element) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return elements_.size() < capacity_ || closed_; });
    if (closed_) return false;
    elements_.push_back(std::move(element));
    changed_.notify_all();
    return true;
  }
  // Ends the queue: its elements are still taken, and then `error` is thrown.
  void end(std::exception_ptr error = nullptr) {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    error_ = std::move(error);
    changed_.notify_all();
  }
  // Nothing more will be taken.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    elements_.clear();
    changed_.notify_all();
  }
  // Waits for the next element; false at the end.
  bool take(T& element) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !elements_.empty() || ended_ || closed_; });
    if (elements_.empty()) {
      if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
      return false;
    }
    element = std::move(elements_.front());
    elements_.pop_front();
    changed_.notify_all();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> elements_;
  const size_t capacity_;
  bool ended_ = false, closed_ = false;
  std::exception_ptr error_;
};

}  // namespace freight::app
