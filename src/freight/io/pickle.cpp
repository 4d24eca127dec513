// See pickle_internal.h. The opcodes are those of Python's pickletools. Each pushes one value at most, so that values
// and stack are bounded by the bytes read, and by kMaxPickleValues.
#include <algorithm>
#include <unordered_map>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/io/little_endian_internal.h"
#include "freight/io/memory_need.h"
#include "freight/io/pickle_internal.h"

namespace freight::io {

namespace {

constexpr const char* kKindNames[] = {
    "None",    "a boolean", "an integer", "a large integer", "a float", "a string",  "bytes",
    "a tuple", "a list",    "a dict",     "a set",           "a name",  "an object", "an external object"};

// Opcodes that make or change objects of any class; their names are those of Python's pickletools.
struct RefusedOpcode {
  uint8_t code;
  const char* name;
};
constexpr RefusedOpcode kRefusedOpcodes[] = {{'o', "OBJ"},          {0x92, "NEWOBJ_EX"},      {'P', "PERSID"},
                                             {0x82, "EXT1"},        {0x83, "EXT2"},           {0x84, "EXT4"},
                                             {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};

bool is_container(std::string_view global) {
  constexpr std::string_view kContainers[] = {
      "collections.OrderedDict", "collections.Counter",   "builtins.set",       "__builtin__.set",
      "builtins.frozenset",      "__builtin__.frozenset", "builtins.bytearray", "__builtin__.bytearray",
      "_codecs.encode",          "builtins.bytes",        "__builtin__.bytes"};
  return std::find(std::begin(kContainers), std::end(kContainers), global) != std::end(kContainers);
}

class PickleMachine {
 public:
  PickleMachine(ByteView bytes, const std::string& name, PickleGlobal (*known)(std::string_view))
      : bytes_(bytes), name_(name), known_(known) {
    out_.values.resize(3);  // None, False and True, which every pickle shares
    out_.values[kFalse].kind = out_.values[kTrue].kind = PickleKind::boolean;
    out_.values[kTrue].integer = 1;
  }

  Pickle run() {
    while (!done_) {
      if (at_ >= kMaxPickleBytes) damaged("has more than ", kMaxPickleBytes, " bytes, the limit");
      const uint8_t code = take(1)[0];
      if (!scalar(code) && !container(code) && !memo(code) && !object(code)) unknown(code);
      if (out_.values.size() > kMaxPickleValues || stack_.size() > kMaxPickleValues) {
        damaged("has more than ", kMaxPickleValues, " values, the limit; save the state_dict alone");
      }
    }
    out_.size = at_;
    return std::move(out_);
  }

 private:
  static constexpr PickleRef kNone = 0, kFalse = 1, kTrue = 2;

  template <class... Parts>
  [[noreturn]] void damaged(const Parts&... parts) const {
    fail(ErrorKind::checkpoint, name_, "the pickle ", parts...);
  }
  template <class... Parts>
  [[noreturn]] void refused(const Parts&... parts) const {
    fail(ErrorKind::checkpoint, name_, "refused: the pickle ", parts...,
         ", expected only tensors, numbers, strings and containers; none of its code was run. Save the weights alone, "
         "in PyTorch: torch.save(model.state_dict(), FILE)");
  }
  [[noreturn]] void unknown(uint8_t code) const {
    for (const RefusedOpcode& o : kRefusedOpcodes) {
      if (o.code == code) refused("makes an object by the opcode ", o.name);
    }
    damaged("has the unknown opcode ", static_cast<int>(code), " at byte ", at_ - 1);
  }

  ByteView take(uint64_t size) {
    if (size > bytes_.size() - at_) damaged("is truncated: ", size, " bytes needed at byte ", at_);
    const ByteView v = bytes_.subspan(at_, size);
    at_ += size;
    return v;
  }
  uint64_t take_word(int size) { return little_endian(take(static_cast<uint64_t>(size))); }
  std::string take_text(uint64_t size) {
    const ByteView v = take(size);
    return {v.begin(), v.end()};
  }
  std::string take_line() {
    const ByteView rest = bytes_.subspan(at_);
    const auto end = std::find(rest.begin(), rest.end(), '\n');
    if (end == rest.end()) damaged("is truncated: no end of the line at byte ", at_);
    std::string line = take_text(static_cast<uint64_t>(end - rest.begin()));
    ++at_;
    return line;
  }

  PickleValue& value(PickleRef ref) { return out_.values[ref]; }
  PickleRef make(PickleKind kind) {
    out_.values.emplace_back().kind = kind;
    return static_cast<PickleRef>(out_.values.size() - 1);
  }
  void push(PickleRef ref) { stack_.push_back(ref); }
  void push_integer(int64_t v) {
    push(make(PickleKind::integer));
    value(stack_.back()).integer = v;
  }
  void push_text(PickleKind kind, std::string text) {
    push(make(kind));
    value(stack_.back()).text = std::move(text);
  }
  // A little-endian integer in two's complement.
  void push_long(uint64_t size) {
    const ByteView v = take(size);
    if (size > 8) return push_text(PickleKind::large_integer, {v.begin(), v.end()});
    uint64_t bits = little_endian(v);
    if (size > 0 && size < 8 && v[size - 1] & 0x80) bits |= ~uint64_t{0} << (8 * size);  // the sign
    push_integer(static_cast<int64_t>(bits));
  }
  void push_decimal(std::string line) {
    if (line == "00" || line == "01") return push(line == "01" ? kTrue : kFalse);
    if (line.ends_with('L')) line.pop_back();
    const auto v = parse_number<int64_t>(line);
    if (!v) return push_text(PickleKind::large_integer, std::move(line));
    push_integer(*v);
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleRef pop() {
    if (stack_.size() <= floor()) damaged("takes a value from an empty stack at byte ", at_ - 1);
    const PickleRef ref = stack_.back();
    stack_.pop_back();
    return ref;
  }
  PickleRef top() const {
    if (stack_.size() <= floor()) damaged("takes a value from an empty stack at byte ", at_ - 1);
    return stack_.back();
  }
  // The values above the last mark.
  std::vector<PickleRef> pop_mark() {
    if (marks_.empty()) damaged("takes values to a mark that is not there at byte ", at_ - 1);
    std::vector<PickleRef> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<PickleRef> pop_some(size_t count) {
    std::vector<PickleRef> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  void add(PickleRef to, const std::vector<PickleRef>& items) {
    int depth = value(to).depth;
    for (const PickleRef i : items) depth = std::max(depth, value(i).depth + 1);
    if (depth > kMaxPickleDepth) damaged("nests containers deeper than ", kMaxPickleDepth, ", the limit");
    value(to).depth = static_cast<uint16_t>(depth);
    // A list that is copied into set after set by calls of a few bytes each would fill any memory.
    items_ += items.size();
    if (items_ > 4 * kMaxPickleValues)
      damaged("has containers of more than ", 4 * kMaxPickleValues, " items, the limit");
    value(to).items.insert(value(to).items.end(), items.begin(), items.end());
  }
  void push_container(PickleKind kind, const std::vector<PickleRef>& items) {
    if (kind == PickleKind::dict && items.size() % 2 != 0) damaged("has a key without a value at byte ", at_ - 1);
    const PickleRef ref = make(kind);
    add(ref, items);
    push(ref);
  }
  void add_to_top(PickleKind kind, const std::vector<PickleRef>& items) {
    const PickleRef to = top();
    if (value(to).kind != kind) {
      refused("adds to ", to_string(value(to).kind), " as if it were ", to_string(kind), " (byte ", at_ - 1, ")");
    }
    if (kind == PickleKind::dict && items.size() % 2 != 0) damaged("has a key without a value at byte ", at_ - 1);
    add(to, items);
  }

  bool scalar(uint8_t code) {
    switch (code) {
      case 'N': push(kNone); return true;
      case 0x88: push(kTrue); return true;
      case 0x89: push(kFalse); return true;
      case 'I':
      case 'L': push_decimal(take_line()); return true;
      case 'J': push_integer(static_cast<int32_t>(take_word(4))); return true;
      case 'K': push_integer(static_cast<int64_t>(take_word(1))); return true;
      case 'M': push_integer(static_cast<int64_t>(take_word(2))); return true;
      case 0x8a: push_long(take_word(1)); return true;
      case 0x8b: push_long(take_word(4)); return true;
      case 'F':
        take_line();
        push(make(PickleKind::number));
        return true;
      case 'G':
        take(8);
        push(make(PickleKind::number));
        return true;
      case 'S': push_text(PickleKind::text, quoted(take_line())); return true;
      case 'V': push_text(PickleKind::text, take_line()); return true;
      case 'U':
      case 0x8c: push_text(PickleKind::text, take_text(take_word(1))); return true;
      case 'T':
      case 'X': push_text(PickleKind::text, take_text(take_word(4))); return true;
      case 0x8d: push_text(PickleKind::text, take_text(take_word(8))); return true;
      case 'C': push_text(PickleKind::bytes, take_text(take_word(1))); return true;
      case 'B': push_text(PickleKind::bytes, take_text(take_word(4))); return true;
      case 0x8e:
      case 0x96: push_text(PickleKind::bytes, take_text(take_word(8))); return true;
      default: return false;
    }
  }
  std::string quoted(const std::string& line) const {
    const bool whole = line.size() >= 2 && line.front() == line.back() && (line[0] == '\'' || line[0] == '"');
    if (!whole || line.find('\\') != std::string::npos) {
      damaged("has a string of protocol 0 that is not quoted plainly: ", excerpt(line));
    }
    return line.substr(1, line.size() - 2);
  }

  bool container(uint8_t code) {
    switch (code) {
      case '(': push_mark(); return true;
      case ')': push_container(PickleKind::tuple, {}); return true;
      case 0x85: push_container(PickleKind::tuple, pop_some(1)); return true;
      case 0x86: push_container(PickleKind::tuple, pop_some(2)); return true;
      case 0x87: push_container(PickleKind::tuple, pop_some(3)); return true;
      case 't': push_container(PickleKind::tuple, pop_mark()); return true;
      case ']': push_container(PickleKind::list, {}); return true;
      case 'l': push_container(PickleKind::list, pop_mark()); return true;
      case '}': push_container(PickleKind::dict, {}); return true;
      case 'd': push_container(PickleKind::dict, pop_mark()); return true;
      case 0x8f: push_container(PickleKind::set, {}); return true;
      case 0x91: push_container(PickleKind::set, pop_mark()); return true;
      case 'a': add_to_top(PickleKind::list, pop_some(1)); return true;
      case 'e': {
        const std::vector<PickleRef> items = pop_mark();
        add_to_top(PickleKind::list, items);
        return true;
      }
      case 's': add_to_top(PickleKind::dict, pop_some(2)); return true;
      case 'u': {
        const std::vector<PickleRef> items = pop_mark();
        add_to_top(PickleKind::dict, items);
        return true;
      }
      case 0x90: {
        const std::vector<PickleRef> items = pop_mark();
        add_to_top(PickleKind::set, items);
        return true;
      }
      default: return false;
    }
  }
  void push_mark() {
    if (marks_.size() >= kMaxPickleDepth) damaged("nests marks deeper than ", kMaxPickleDepth, ", the limit");
    marks_.push_back(stack_.size());
  }

  bool memo(uint8_t code) {
    switch (code) {
      case 'p': put(number_of(take_line())); return true;
      case 'q': put(take_word(1)); return true;
      case 'r': put(take_word(4)); return true;
      case 0x94: put(memo_.size()); return true;
      case 'g': get(number_of(take_line())); return true;
      case 'h': get(take_word(1)); return true;
      case 'j': get(take_word(4)); return true;
      case '0': marks_.empty() || stack_.size() > floor() ? void(pop()) : marks_.pop_back(); return true;
      case '1': pop_mark(); return true;
      case '2': push(top()); return true;
      case 0x80:
        if (const uint64_t protocol = take_word(1); protocol > 5) {
          damaged("is of protocol ", protocol, ", expected 5 or less");
        }
        return true;
      case 0x95:
        if (const uint64_t frame = take_word(8); frame > bytes_.size() - at_)
          damaged("is truncated: a frame of ", frame);
        return true;
      case '.':
        out_.root = pop();
        done_ = true;
        return true;
      default: return false;
    }
  }
  uint64_t number_of(const std::string& line) const {
    const auto v = parse_number<uint64_t>(line);
    if (!v) damaged("has a memo of the name ", excerpt(line));
    return *v;
  }
  void put(uint64_t key) { memo_[key] = top(); }
  void get(uint64_t key) {
    const auto it = memo_.find(key);
    if (it == memo_.end()) damaged("asks for the memo ", key, ", which is not there");
    push(it->second);
  }

  bool object(uint8_t code) {
    switch (code) {
      case 'c': {
        std::string module = take_line();
        push_global(std::move(module) + "." + take_line());
        return true;
      }
      case 0x93: {
        const std::vector<PickleRef> names = pop_some(2);
        if (value(names[0]).kind != PickleKind::text || value(names[1]).kind != PickleKind::text) {
          damaged("has a name that is not a string at byte ", at_ - 1);
        }
        push_global(value(names[0]).text + "." + value(names[1]).text);
        return true;
      }
      case 'i': {  // INST, of protocol 0
        std::string module = take_line();
        refused("makes an object of ", excerpt(module + "." + take_line()));
      }
      case 'R':
      case 0x81: reduce(); return true;  // NEWOBJ calls a class
      case 'b': build(); return true;
      case 'Q': {
        const std::vector<PickleRef> id = pop_some(1);
        push_container(PickleKind::persistent, id);
        return true;
      }
      default: return false;
    }
  }
  void push_global(std::string global) {
    if (!is_container(global) && known_(global) == PickleGlobal::refused) refused("names ", excerpt(global));
    push_text(PickleKind::global, std::move(global));
  }
  void reduce() {
    const PickleRef arguments = pop(), function = pop();
    if (value(function).kind != PickleKind::global || value(arguments).kind != PickleKind::tuple) {
      refused("calls ", to_string(value(function).kind), " with ", to_string(value(arguments).kind));
    }
    const std::string& global = value(function).text;
    if (is_container(global)) return make_container(global, arguments);
    if (known_(global) < PickleGlobal::function) refused("calls ", excerpt(global));
    push_container(PickleKind::call, {function, arguments});
  }
  // OrderedDict([(key, value), ...]), set([...]), encode(text, "latin1") and the like.
  void make_container(const std::string& global, PickleRef arguments) {
    const std::vector<PickleRef> given = value(arguments).items;
    const bool bytes = global.ends_with("encode") || global.ends_with("bytes") || global.ends_with("bytearray");
    if (bytes) {
      const bool text =
          !given.empty() && (value(given[0]).kind == PickleKind::text || value(given[0]).kind == PickleKind::bytes);
      if (!text && !given.empty()) refused("calls ", global, " with ", to_string(value(given[0]).kind));
      return push_text(PickleKind::bytes, text ? value(given[0]).text : std::string());
    }
    const bool dict = global.starts_with("collections.");
    std::vector<PickleRef> items;
    const PickleKind kind = given.empty() ? PickleKind::none : value(given[0]).kind;
    const bool copies = dict && kind == PickleKind::dict;  // Counter({...})
    if (given.size() > 1 || (given.size() == 1 && kind != PickleKind::list && !copies)) {
      refused("calls ", global, " with other arguments than a list");
    }
    if (!given.empty()) items = value(given[0]).items;
    if (dict && !copies) {
      std::vector<PickleRef> pairs;
      for (const PickleRef i : items) {
        const PickleValue& pair = value(i);
        if ((pair.kind != PickleKind::list && pair.kind != PickleKind::tuple) || pair.items.size() != 2) {
          refused("calls ", global, " with a list of other things than pairs");
        }
        pairs.insert(pairs.end(), pair.items.begin(), pair.items.end());
      }
      items = std::move(pairs);
    }
    push_container(dict ? PickleKind::dict : PickleKind::set, items);
  }
  // The state of an OrderedDict is its attributes, such as the versions of modules in a state_dict: not needed.
  void build() {
    const PickleRef state = pop();
    const PickleValue& object = value(top());
    if (object.kind == PickleKind::call && object.items.size() == 2 &&
        known_(value(object.items[0]).text) == PickleGlobal::object) {
      return add(top(), {state});
    }
    if (value(top()).kind != PickleKind::dict || value(state).kind != PickleKind::dict) {
      refused("sets the state of ", to_string(value(top()).kind), " to ", to_string(value(state).kind));
    }
  }

  ByteView bytes_;
  const std::string& name_;
  PickleGlobal (*known_)(std::string_view);
  Pickle out_;
  std::vector<PickleRef> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleRef> memo_;
  size_t at_ = 0, items_ = 0;
  bool done_ = false;
};

}  // namespace

const char* to_string(PickleKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Pickle read_pickle(ByteView bytes, const std::string& name, PickleGlobal (*known)(std::string_view global)) {
  return reading(name, [&] { return PickleMachine(bytes, name, known).run(); });
}

}  // namespace freight::io
