// Task: what the training loop must know of a kind of data: images and arrays (task.cpp) or text (text_task.cpp). It
// makes the model for the data, feeds its batches, and says what a stored model needs to read the same data again.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "freight/data/feed.h"
#include "freight/store/bundle.h"
#include "freight/train/config.h"

namespace freight::train {

class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // The model of the configuration, made for the data. Throws Error(usage) where they do not fit.
  virtual models::Model make_model() const = 0;
  virtual store::Preprocessing preprocessing() const = 0;
  virtual std::vector<std::string> classes() const = 0;

  virtual std::unique_ptr<data::Feed> train_feed() const = 0;
  virtual std::unique_ptr<data::Feed> test_feed(int64_t batch_size) const = 0;
  // The images of training in their order, normalised and not augmented; null where samples are none.
  virtual std::unique_ptr<data::Feed> plain_feed() const { return nullptr; }
  // Inputs and targets of the largest full batch of training.
  virtual std::pair<Type, Type> batch_types() const = 0;

  virtual int64_t train_count() const = 0;
  virtual int64_t test_count() const = 0;
  virtual uint64_t fingerprint() const = 0;  // of the training part
  // Bytes that its feeds keep in host memory beside the batches, besides what is there already.
  virtual size_t kept_bytes() const { return 0; }
  virtual std::vector<std::string> notes() const = 0;
  // The word for what is counted: "img", "sample", "doc", "tok".
  virtual const char* unit() const = 0;
  // Shows what `freight predict` takes of such data: "IMAGE.png"; "" where it takes none.
  virtual std::string example() const = 0;

 protected:
  Task() = default;
};

// Whether the value of --model is a path rather than a name.
bool is_spec_file(const std::string& model);

// Throws Error(usage) that names the first flag that is given, and why it cannot be.
void refuse_given(const std::vector<std::pair<const char*, bool>>& flags, const std::string& why);

// `bad` hears of samples that are left out; it may be called while the task is made.
std::unique_ptr<Task> make_task(const Config& config, const data::BadSamples& bad);
std::unique_ptr<Task> make_text_task(const Config& config, const data::BadSamples& bad);

}  // namespace freight::train
