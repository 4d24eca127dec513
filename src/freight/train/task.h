// Task: the interface of a kind of data for the training loop: images and arrays (task.cpp), text (text_task.cpp), or
// batches that a program makes (feed_task.cpp). It makes the model for the data, feeds its batches, and has the
// preprocessing that a saved model needs to read the same data again.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/data/feed.h"
#include "freight/data/source.h"
#include "freight/data/tokens.h"
#include "freight/store/bundle.h"
#include "freight/train/class_weights.h"
#include "freight/train/config.h"

namespace freight::optim {
class Optimizer;
}

namespace freight::train {

class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // The model of the configuration, made for the data. Throws Error(usage) where they do not fit.
  virtual models::Model make_model() const = 0;
  virtual store::Preprocessing preprocessing() const = 0;
  virtual std::vector<std::string> classes() const = 0;            // or labels
  virtual std::vector<std::string> targets() const { return {}; }  // names of values, where they have some

  // The share of their batches that this process reads.
  virtual std::unique_ptr<data::Feed> train_feed(const data::Share& share) const = 0;
  virtual std::unique_ptr<data::Feed> test_feed(int64_t batch_size, const data::Share& share) const = 0;
  // The order and batches of training samples, if a Loader makes them; otherwise empty.
  virtual std::optional<data::LoaderOptions> loader_options(const data::Share& /*share*/) const { return std::nullopt; }
  // All samples of training, unshuffled: epoch e has them as epoch e of training changes them. Null where samples have
  // no number, such as the windows of a corpus.
  virtual std::unique_ptr<data::Feed> ordered_feed(int64_t /*batch_size*/) const { return nullptr; }
  // Where no Loader makes the batches: the same batches, whose targets are the numbers i64 (N) of the samples. Those of
  // training have the size of the configuration.
  enum class Batches { train, ordered, test };
  virtual std::unique_ptr<data::Feed> numbers(Batches, int64_t /*batch_size*/, const data::Share&) const {
    return nullptr;
  }
  virtual bool reads_image_files() const { return false; }
  // The images of training in their order, normalized and not augmented; null where samples are none.
  virtual std::unique_ptr<data::Feed> plain_feed() const { return nullptr; }
  // Classes i64 (N) or values f32 (N) of the training samples, by which they are divided evenly into folds; undefined
  // where samples cannot be divided, such as the windows of a corpus.
  virtual Array fold_labels() const { return {}; }
  // Numbers i64 (N) of the groups of training samples that no fold separates; undefined where there are none.
  virtual Array fold_groups() const { return {}; }
  // A dataset of these training samples, and of others as its held-out part.
  virtual data::Source divided(const std::vector<int64_t>& /*train*/, const std::vector<int64_t>& /*held_out*/) const {
    return {};
  }
  // The numbers of the held-out samples in the order in which test_feed gives them; empty: in their own.
  virtual std::vector<int64_t> test_order() const { return {}; }
  // The column of the names of training samples in a list of predictions, "path", and the names.
  virtual std::pair<std::string, std::vector<std::string>> sample_names() const { return {}; }
  // Inputs and targets of the largest full batch of training.
  virtual std::pair<Type, Type> batch_types() const = 0;
  // Inputs and targets of the largest test batch of so many samples. Test samples may have another size than those of
  // training, and their labels are never mixed.
  virtual std::pair<Type, Type> test_types(int64_t batch_size) const {
    std::pair<Type, Type> types = batch_types();
    types.first.shape[0] = types.second.shape[0] = batch_size;
    return types;
  }

  // The samples of each class in either part; nothing where samples do not have a class each.
  virtual ClassCounts train_classes() const { return {}; }
  virtual ClassCounts test_classes() const { return {}; }
  virtual int64_t train_count() const = 0;
  virtual int64_t test_count() const = 0;
  virtual uint64_t fingerprint() const = 0;  // of the training part
  // Documents by the length of the batches that they are in.
  virtual data::DocumentLengths lengths() const { return {}; }
  // Bytes that its feeds keep in host memory beside the batches, besides what is there already; with --folds also the
  // copy of the samples for a fold.
  virtual size_t kept_bytes() const { return 0; }
  virtual std::vector<std::string> notes() const = 0;
  // True where the data has a test part of its own, and training is evaluated on another: the one for validation.
  virtual bool test_apart() const { return false; }
  // True where training is evaluated on a validation set, and not on a test part of the data.
  virtual bool validates() const { return false; }
  // The word for what is counted: "img", "sample", "doc", "tok".
  virtual const char* unit() const = 0;
  // An argument of `freight predict` for such data, quoted for a shell; "" where none is known.
  virtual std::string example() const = 0;
  // The set of `freight data sample` that the example is of; "" where it is there already.
  virtual std::string sample_set() const { return {}; }

 protected:
  Task() = default;
};

// True if the value of --model is a path rather than a name.
bool is_spec_file(const std::string& model);

// Both parts of a data set as batches that a program makes (data::made_feed, or a Feed of its own). Each function gives
// a feed of its part in batches of so many samples, in training full ones alone. Without `test` nothing is evaluated.
struct Feeds {
  std::function<std::unique_ptr<data::Feed>(int64_t batch_size)> train, test;
  std::string name = "feeds";             // of the data, for the run's record
  std::vector<std::string> classes = {};  // names by number; empty: numbers, or no classes
  uint64_t fingerprint = 0;               // of the training part: a run is resumed on the same alone
  bool validation = false;                // whether `test` has validation samples, which records call "val"
};

// A program's own network and data, in place of the configured ones. The network is trained in place: its weights are
// the initial ones of the run, and in the end the trained ones.
struct Own {
  std::optional<models::Model> model = {};
  std::optional<Feeds> feeds = {};  // in place of a source; requires a model of the program's own
  // The optimizer of the program, in place of the configured one: config.lr is its rate, its states are the run's.
  std::shared_ptr<optim::Optimizer> optimizer = {};
  // The preprocessing of the network whose weights the run is fine-tuned from: its vocabulary, or mean and std of its
  // channels, replace those of the data.
  std::optional<store::Preprocessing> pretrained = {};

  bool any() const { return model || feeds; }
};

// Flags, each with true if the configuration gives it.
using GivenFlags = std::vector<std::pair<const char*, bool>>;
// Throws Error(usage) that names the first flag that is given, and why it cannot be.
void refuse_given(const GivenFlags& flags, const std::string& why);
// The flags that decide how samples of images or arrays are prepared and augmented.
GivenFlags image_flags(const Config& config);

// Gives a model the loss that the configuration names, and for --task regression the scale of the training targets.
// Throws Error(usage) for one that does not fit what it returns.
void set_loss(models::Model& model, const Config& config, const Array& targets);
// Throws Error(usage) if the targets of the data are not what --task says. `what`: "classes", "values", "labels".
void need_task(const Config& config, const std::string& what);

// `bad` is called for samples that cannot be read, possibly while the task is made.
std::unique_ptr<Task> make_task(const Config& config, const data::Source& source, const data::BadSamples& bad,
                                const Own& own = {});
std::unique_ptr<Task> make_text_task(const Config& config, const data::Source& source, const data::BadSamples& bad,
                                     const Own& own);
std::unique_ptr<Task> make_feed_task(const Config& config, const Own& own);

}  // namespace freight::train
