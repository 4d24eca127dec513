// Trace: one append-only graph with what its leaves are bound to. Internal to the library: sources of trace, ops and
// nn include it, users do not. Eager traces evaluate themselves (evaluate.cpp) and stay as the history of what they
// made while gradients can be asked for through it (history.cpp); compiled ones are taken apart by compile.cpp.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "freight/base/error.h"
#include "freight/ir/graph.h"
#include "freight/passes/passes.h"
#include "freight/run/executable.h"
#include "freight/trace/device.h"
#include "freight/trace/scope.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight::trace {

class Trace;
struct VariableImpl;

// One value that a variable had, the same for all who read it. Where the variable is overwritten while somebody holds
// the version, its elements are saved here.
struct Version {
  Array saved;
  bool stale = false;  // the variable has another value by now
};

// A reference to a version. They are counted: where there is none, a step that overwrites variables need not look.
class HeldVersion {
 public:
  HeldVersion() = default;
  explicit HeldVersion(std::shared_ptr<Version> version) : version_(std::move(version)) { count() += version_ ? 1 : 0; }
  HeldVersion(const HeldVersion& other) : HeldVersion(other.version_) {}
  HeldVersion(HeldVersion&& other) noexcept : version_(std::move(other.version_)) {}
  HeldVersion& operator=(HeldVersion other) noexcept {
    version_.swap(other.version_);
    return *this;
  }
  ~HeldVersion() { count() -= version_ ? 1 : 0; }
  explicit operator bool() const { return version_ != nullptr; }
  const std::shared_ptr<Version>& get() const { return version_; }
  Version* operator->() const { return version_.get(); }
  static std::atomic<int>& count();

 private:
  std::shared_ptr<Version> version_;
};

// Handles of users share it; traces that read it hold it, too.
struct TensorImpl {
  Type type;
  std::shared_ptr<Trace> trace;            // that made it; null: it was made from an array
  Value value;                             // in the trace
  Device device = nullptr;                 // where it lies; null in a compiled function that has no device so far
  bool follows = false;                    // a number, a constant, a host array: may be an operand on any device
  std::shared_ptr<TensorImpl> moved_from;  // the same value on the device where it was made; null there
  Array array;                             // once `evaluated`; does not change after that
  // Its definition where it depends on constants alone. Later traces repeat it, so that they fold it as this one did.
  std::shared_ptr<const Graph> constant;
  // What it is the value of, where it is a variable's: every reader of that value is the same to gradients.
  std::shared_ptr<VariableImpl> variable;
  HeldVersion version;
  std::exception_ptr failure;  // why it has no elements although its trace has run; read after Trace::run alone
  std::atomic<bool> evaluated{false};
  std::atomic<int> captures{0};  // by traces: the other references are handles of users

  void evaluate_to(Array elements) {
    array = std::move(elements);
    evaluated.store(true, std::memory_order_release);
  }
  bool is_evaluated() const { return evaluated.load(std::memory_order_acquire); }
};

struct VariableImpl {
  std::string name;
  Type type;
  Init init;
  uint64_t seed = 0, epoch = 0;  // the seed at construction, and which call of seed() set it
  Variable::Role role = Variable::Role::state;
  bool trainable = true;
  bool frozen = false;  // by set_trainable: optimizers leave it alone
  bool on_host = false;
  Device device = nullptr;                // null: several devices use it
  std::shared_ptr<VariableImpl> tied_to;  // the variable that this one's handles mean by now

  // The elements, made at the first call, where they are not drawn for somebody who overwrites all of them. Any number
  // of threads may ask.
  enum class Fill : uint8_t { draw, none };
  const std::shared_ptr<Storage>& materialize(Fill how = Fill::draw);
  bool made() const { return made_.load(std::memory_order_acquire); }
  // Takes this block where there are no elements yet, and it is aligned as one that was allocated here; else false.
  bool adopt(const std::shared_ptr<Storage>& elements);
  // The elements for the host, who may write them while anybody holds the block that this returns.
  std::shared_ptr<Storage> lend();
  bool lent() const;
  // How often the elements were changed, or lent. Plans that keep copies of them compare it.
  uint64_t changes() const { return changes_; }
  void count_change() { ++changes_; }
  // Uses this block, which nobody has asked for yet, for the elements.
  void bind(std::shared_ptr<Storage> elements);
  // Forgets the elements, which nobody uses.
  void release();
  // The present value. Whoever overwrites the elements calls supersede(): before, or after that with a copy of those
  // that were there. Both under history_mutex.
  const std::shared_ptr<Version>& version();
  void supersede(const Array& overwritten = {});

 private:
  std::shared_ptr<Storage> storage_;
  std::atomic<bool> made_{false};
  std::shared_ptr<Version> version_;  // null until somebody asks
  std::atomic<uint64_t> changes_{1};
  std::weak_ptr<void> lent_;
};

// A variable inside one trace.
struct StateUse {
  std::shared_ptr<VariableImpl> variable;
  Value leaf;
  Value next;  // what was assigned last; the leaf where nothing was
  Value read;  // what readers get now: the leaf, or what was assigned, behind stop_gradient; invalid until one asks
  HeldVersion before, after;  // which values leaf and read are; eager traces only

  bool assigned() const { return !(next == leaf); }
};

// A trace may depend on a flag outside of the graph (train or eval): it is valid only while the flag has this value.
struct Guard {
  std::shared_ptr<const bool> flag;
  bool value = false;
  bool holds() const { return *flag == value; }
};

// A function that gradients pass at a node: on_gradient.
struct GradientHook {
  Value value;  // the node's result
  std::shared_ptr<const std::function<Tensor(const Tensor&)>> function;
};

class Trace : public std::enable_shared_from_this<Trace> {
 public:
  enum class Mode { eager, compile };
  // An eager trace is for one device. A compiled one is for the device of the first operand that has one, unless it is
  // given one: then it takes its operands from wherever they lie.
  explicit Trace(Mode mode, Device device = nullptr)
      : mode_(mode), device_(device), takes_all_(mode == Mode::compile && device) {}
  ~Trace();

  Mode mode() const { return mode_; }
  Device device() const { return device_; }
  bool takes_all() const { return takes_all_; }
  // Whether what lies there may be an operand here (null: anywhere). The first one decides where none was given.
  bool admits(Device device);
  Graph& graph() { return graph_; }

  std::vector<Tensor> add(Op op, Attrs attrs, const std::vector<Tensor>& inputs);
  Tensor wrap(Value value, bool follows = false);
  // A new input leaf.
  Tensor input(const std::string& name, const Type& type);
  // The value of a tensor in this trace; evaluated tensors become inputs, tensors of older traces are evaluated. Throws
  // Error(usage) that names `op` for a tensor of another device.
  Value value_of(const Tensor& tensor, const char* op = "tensor");
  // The leaf of an evaluated tensor if this trace has read it, else invalid.
  Value find(const Tensor& tensor) const;
  StateUse& use(const std::shared_ptr<VariableImpl>& variable);
  // The value that a variable has at this point. Gradients do not pass an assignment: the value is where they end.
  Value read(const std::shared_ptr<VariableImpl>& variable);
  void assign(const std::shared_ptr<VariableImpl>& variable, Value next);
  // Assignments made so far take effect only where `condition` (bool[]) holds; of integer states the random one's.
  void guard_assignments(Value condition);
  // Distinguishes the draws of one step. Eager draws count steps instead (key_drawn): evaluating between two draws then
  // changes neither.
  int64_t next_stream() { return mode_ == Mode::compile ? streams_++ : 0; }
  void key_drawn();
  void depend_on(const std::shared_ptr<const bool>& flag);

  bool touches_state() const { return !states_.empty(); }
  bool uses(const VariableImpl& variable) const { return state_index_.count(&variable) > 0; }
  // Sets graph outputs and updates (with the random state's, where random ops were traced).
  void finish(const std::vector<Value>& outputs);
  // Eager: runs all that is pending; live tensors get their elements. Throws what the tensor asked for (null: all)
  // failed with. A run that fails changes no variable, and the tensors that do not depend on what failed get their
  // elements all the same: whoever asks for one of those hears of the failure where an assignment is lost with it, and
  // only then.
  void run(const TensorImpl* asked = nullptr);
  // The failure of a run by another thread that lost assignments of the thread which recorded them; once.
  std::exception_ptr take_loss();
  // Whether it has begun to run: the next operation goes into another trace. Asked under mutex().
  bool closed() const { return closed_; }
  // Guards an eager trace: other threads may read tensors that are pending in it.
  std::recursive_mutex& mutex() { return mutex_; }
  bool empty() const { return graph_.nodes.empty(); }
  // Nodes recorded, and bytes of the inputs captured so far.
  size_t size() const { return graph_.nodes.size(); }
  size_t captured_bytes() const { return captured_bytes_; }

  // Takes in all that `value` was computed from in traces that have run, in front of what this trace recorded itself,
  // so that gradients reach it. Values change their numbers; returns the new one of `value`.
  Value recall(Value value);
  // Compiled: a tensor from outside that `loss` is computed from, and that was computed from this value of a variable
  // or from this tensor (the other is null); null where there is none. A gradient would not go back through it.
  std::shared_ptr<TensorImpl> constant_made_of(Value loss, const VariableImpl* variable, const TensorImpl* tensor);
  void add_gradient_hook(Value value, std::function<Tensor(const Tensor&)> function);
  const std::vector<GradientHook>& gradient_hooks() const { return gradient_hooks_; }
  // While it lives, gradients are walked back through the trace: it must neither run nor number its values anew.
  class Walk {
   public:
    explicit Walk(Trace& trace) : trace_(trace) { trace.walked_ = true; }
    ~Walk() { trace_.walked_ = false; }
    Walk(const Walk&) = delete;
    Walk& operator=(const Walk&) = delete;

   private:
    Trace& trace_;
  };
  // Throws Error(usage) naming `op` while gradients are walked back through the trace.
  void need_no_walk(const char* op) const;
  // Leaves that stand for evaluated tensors whose history was recalled.
  const std::vector<Alias>& aliases() const { return aliases_; }

  // After finish: what the leaves are bound to, in order of the graph's leaves. `captured` follows the inputs that
  // input() made.
  std::vector<std::shared_ptr<Storage>> state_storages() const;
  std::vector<std::shared_ptr<VariableImpl>> variables() const;
  const std::vector<StateUse>& states() const { return states_; }
  const std::vector<Array>& captured() const { return captured_; }
  const std::vector<Guard>& guards() const { return guards_; }

 private:
  friend class Recall;
  // An evaluated tensor that this trace reads, and its value here.
  struct Source {
    std::shared_ptr<TensorImpl> tensor;
    Value value;
  };
  // What was recalled of an older trace: by value there, whether it was, and what its definition is here.
  struct Recalled {
    std::shared_ptr<Trace> trace;
    std::vector<bool> needed;
    std::vector<Value> here;
  };
  Value capture(const std::shared_ptr<TensorImpl>& tensor);
  Value capture_elements(const TensorImpl& tensor);
  void add_source(const std::shared_ptr<TensorImpl>& tensor, Value value);
  // evaluate.cpp.
  struct Live;
  void execute(Live& live);
  void run_planned(const Live& live, const std::vector<std::shared_ptr<Storage>>& storages);
  const Node* only_node() const;
  void run_each(Live& live, const std::vector<std::shared_ptr<Storage>>& storages);
  // history.cpp; all but the last two under history_mutex.
  void tell_versions(const std::vector<std::shared_ptr<TensorImpl>>& live) const;
  bool worth_keeping() const;
  bool has_now(const StateUse& use, Value value) const;
  std::vector<bool> ancestors(Value value) const;
  void release_versions();
  void forget();
  void settle_history(const std::vector<std::shared_ptr<TensorImpl>>& live);

  Mode mode_;
  Device device_;
  bool takes_all_;
  Graph graph_;
  std::vector<std::weak_ptr<TensorImpl>> pending_;
  std::vector<Array> captured_;
  std::vector<Source> sources_;
  std::unordered_map<const TensorImpl*, Value> source_index_;
  size_t captured_bytes_ = 0;
  std::vector<StateUse> states_;
  std::unordered_map<const VariableImpl*, size_t> state_index_;
  std::unordered_map<const Version*, Value> old_versions_;  // inputs that are values which variables had
  std::vector<Guard> guards_;
  std::vector<Alias> aliases_;
  std::vector<GradientHook> gradient_hooks_;
  bool walked_ = false;
  std::vector<Recalled> recalled_;
  Value sound_;  // bool[]: whether the conditions of all guard_assignments hold
  int64_t streams_ = 0;
  std::recursive_mutex mutex_;
  bool closed_ = false, done_ = false;
  std::thread::id recorder_ = std::this_thread::get_id();
  std::exception_ptr loss_;          // see take_loss
  bool kept_ = false;                // it has run, and gradients may be asked for through it
  std::atomic<int> recalled_by_{0};  // traces in whose recalled_ it is
  uint64_t order_ = 0;               // of those that have run: every trace reads older ones only
};

// How often a variable was tied to another one: steps that were traced before may use what nobody means any more.
std::atomic<uint64_t>& tie_count();

// Guards versions of variables and the traces that are kept as history.
std::mutex& history_mutex();

// The thread's trace while it lives: the one being compiled, else the eager one (made when there is none), which other
// threads cannot run meanwhile. Tensors that are pending elsewhere are to be settled before.
class Session {
 public:
  // The eager trace for a device (null: the thread's).
  explicit Session(Device device = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Trace* operator->() const { return trace_; }
  Trace& operator*() const { return *trace_; }

 private:
  Trace* trace_;
  std::shared_ptr<Trace> locked_;  // null where nothing is
};

// Evaluates the tensor where it is pending in another trace than the thread's for `device`, unless that can repeat it.
void settle(const Tensor& tensor, Device device);
// Runs what is pending in this thread on other devices than `device` and uses the variable.
void settle_elsewhere(const VariableImpl& variable, Device device);
// Gives it elements; throws what it failed with.
void evaluate(const std::shared_ptr<TensorImpl>& tensor);
// The definition of a value that depends on constants alone; null for others, which is nearly always found at once.
std::shared_ptr<const Graph> constant_definition(const Graph& graph, Value value);

// Moves a variable that the trace being recorded has not used.
void place(const std::shared_ptr<VariableImpl>& variable, Device device);
// Null: so far nowhere.
Device device_of(const TensorImpl& tensor);
// The device of what is made from arrays now.
Device device_of_leaves();
std::shared_ptr<TensorImpl> leaf_of(const Array& array, Device device);
// What the tensor is to graphs and gradients: a moved one is the one that it was moved from.
inline const std::shared_ptr<TensorImpl>& origin(const std::shared_ptr<TensorImpl>& tensor) {
  return tensor->moved_from ? tensor->moved_from : tensor;
}
// Where an operation on these runs; throws Error(usage) naming `op` where they lie on two devices.
Device device_of_operands(const char* op, const std::vector<Tensor>& operands);

bool compiling();
// Runs the thread's eager trace where it has something to run.
void flush();
// The same where the eager trace has pending work that reads variables.
void flush_state_readers();
// Between two pieces of eager work: runs what is pending when it has become a lot, so that a loop that never reads
// anything needs a bounded amount of memory.
void end_of_piece();
// While it lives, the work of this thread is one piece.
class OnePiece {
 public:
  OnePiece();
  ~OnePiece();
  OnePiece(const OnePiece&) = delete;
  OnePiece& operator=(const OnePiece&) = delete;
};
// While it lives, the thread records into `trace`.
class Recording {
 public:
  explicit Recording(std::shared_ptr<Trace> trace);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  std::shared_ptr<Trace> before_;
};
// Held while a plan runs: alone where it updates variables, else together with other readers.
class StateLock {
 public:
  StateLock(bool reads, bool updates);
  ~StateLock();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

 private:
  bool reads_, updates_;
};

// Throws Error(usage) with the current module path and source line. It names the function that the user called where
// one is known, whatever part of it refuses.
template <class... Parts>
[[noreturn, gnu::cold]] void fail_here(const std::string& op, const Parts&... parts) {
  throw_error(ErrorKind::usage, function() ? function() : op, cat(parts...), location());
}

// Throws Error(usage) for a tensor that was made while a function was traced and is used where nobody traces that: the
// message names the op and the line that made it.
[[noreturn]] void fail_outside(const TensorImpl& tensor, const std::string& op);

// Shorthands of the ops module: append one node to the current trace.
std::vector<Tensor> add(Op op, Attrs attrs, const std::vector<Tensor>& inputs);
inline Tensor one(Op op, Attrs attrs, const std::vector<Tensor>& inputs) {
  return add(op, std::move(attrs), inputs)[0];
}
Tensor constant(double value, const Type& type);
// The tensor behind an argument; a number becomes a constant of `dtype`. Throws Error(usage) for an undefined tensor.
Tensor tensor_of(const In& x, const char* op, DType dtype = DType::f32);

}  // namespace freight::trace
