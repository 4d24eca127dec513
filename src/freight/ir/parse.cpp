// Reads the text form of graphs (docs/graph-text.md). Errors name source and line.
#include <cctype>
#include <cmath>
#include <map>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/ir/batch_graph.h"
#include "freight/ir/fused_pattern.h"
#include "freight/ir/signature.h"

namespace freight {

namespace {

class Parser {
 public:
  Parser(const std::string& text, const std::string& source, int64_t batch)
      : text_(text), source_(source), batch_(batch) {}

  Graph file() {
    expect("graph");
    expect("{");
    Graph g = body();
    skip();
    if (at_ < text_.size()) bad("text after the closing brace");
    return g;
  }

 private:
  using Names = std::map<int64_t, Value>;

  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) {
    throw Error(ErrorKind::data, "graph text", cat(parts...), cat(source_, ":", line_));
  }

  void skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        if (c == '\n') ++line_;
        ++at_;
      } else {
        return;
      }
    }
  }
  bool peek(std::string_view token) {
    skip();
    return std::string_view(text_).substr(at_, token.size()) == token;
  }
  bool take(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) bad("expected `", token, "`, got `", std::string_view(text_).substr(at_, 16), "`");
  }
  std::string word() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    if (at_ == start) bad("expected a word, got `", std::string_view(text_).substr(at_, 16), "`");
    return text_.substr(start, at_ - start);
  }
  std::string string() {
    expect("\"");
    std::string out;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
      if (at_ >= text_.size() || text_[at_] == '\n') bad("unterminated string");
      out += text_[at_];
    }
    expect("\"");
    return out;
  }
  template <class T>
  T number() {
    skip();
    std::string_view rest = std::string_view(text_).substr(at_);
    std::optional<T> v = take_number<T>(rest);
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
      if (rest.starts_with('N')) v = static_cast<T>(of_batch(static_cast<double>(v.value_or(1)), rest));
    }
    if (!v) bad("expected a number, got `", rest.substr(0, 16), "`");
    at_ = text_.size() - rest.size();
    return *v;
  }
  // `rest` stands at the N of 8N+1, of which `slope` is the 8.
  int64_t of_batch(double slope, std::string_view& rest) {
    constexpr double kMost = 0x1p31;
    if (batch_ < 0) bad("got N, the size of the batch: expected a number");
    rest.remove_prefix(1);
    if (rest.starts_with('+')) rest.remove_prefix(1);
    const int64_t more = take_number<int64_t>(rest).value_or(0);
    for (const double factor : {slope, static_cast<double>(batch_), static_cast<double>(more)}) {
      if (!(std::abs(factor) <= kMost) || factor != std::floor(factor))
        bad("a size of N is out of range: got ", factor);
    }
    return static_cast<int64_t>(slope) * batch_ + more;
  }
  Shape shape() {
    Shape s;
    expect("[");
    if (take("]")) return s;
    do {
      if (s.rank() == Shape::kMaxRank) bad("more than ", Shape::kMaxRank, " entries");
      s.push_back(number<int64_t>());
    } while (take(","));
    expect("]");
    return s;
  }
  DType dtype() {
    DType t{};
    const std::string n = word();
    if (!parse_dtype(n, t)) bad("unknown element type `", n, "`");
    return t;
  }
  FusedKind pattern() {
    const std::string n = word();
    for (const FusedPattern& p : fused_patterns()) {
      if (n == p.name) return p.kind;
    }
    bad("unknown pattern `", n, "`");
  }
  Type type() {
    Type t{dtype(), {}};
    t.shape = shape();
    auto bytes = static_cast<int64_t>(std::max(size_of(t.dtype), sizeof(int64_t)));
    for (int64_t d : t.shape) {
      if (d < 0 || (d > 0 && bytes > (int64_t{1} << 46) / d)) bad("size out of range in ", t.shape);
      if (d > 0) bytes *= d;
    }
    return t;
  }
  Value reference(const Names& names) {
    expect("%");
    const int64_t id = number<int64_t>();
    const auto it = names.find(id);
    if (it == names.end()) bad("%", id, " is not defined");
    return it->second;
  }

  // Reads field values where the text stands.
  struct FieldReader {
    Parser& p;
    const std::string& wanted;
    const Type& result;
    bool found = false;
    template <class T>
    void operator()(std::string_view n, T& v) {
      if (n != wanted) return;
      found = true;
      if constexpr (std::is_same_v<T, bool>) {
        v = p.take("true") || (p.expect("false"), false);
      } else if constexpr (std::is_arithmetic_v<T>) {
        v = p.number<T>();
      } else if constexpr (std::is_same_v<T, Shape>) {
        v = p.shape();
      } else if constexpr (std::is_same_v<T, std::string>) {
        v = p.string();
      } else if constexpr (std::is_same_v<T, DType>) {
        v = p.dtype();
      } else if constexpr (std::is_same_v<T, FusedKind>) {
        v = p.pattern();
      } else if constexpr (std::is_same_v<T, Array>) {
        v = p.array(result);
      } else {
        found = false;  // types and bodies stand elsewhere
      }
    }
  };

  Array array(const Type& t) {
    const DType widest = is_floating(t.dtype)    ? DType::f64
                         : is_complex(t.dtype)   ? DType::c128
                         : t.dtype == DType::u64 ? DType::u64
                                                 : DType::i64;
    Array a(widest, t.shape);
    expect("[");
    for (int64_t i = 0; i < t.numel(); ++i) {
      if (i) expect(",");
      if (widest == DType::f64) {
        a.data<double>()[i] = number<double>();
      } else if (widest == DType::c128) {
        expect("(");
        const double real = number<double>();
        expect(",");
        a.data<std::complex<double>>()[i] = {real, number<double>()};
        expect(")");
      } else if (widest == DType::u64) {
        a.data<uint64_t>()[i] = number<uint64_t>();
      } else {
        a.data<int64_t>()[i] = number<int64_t>();
      }
    }
    expect("]");
    return a.cast(t.dtype);
  }

  // The attribute list is read after the types are known: remember where it stands and skip it.
  size_t skip_list() {
    const size_t start = at_;
    bool in_string = false;
    for (; at_ < text_.size() && (in_string || text_[at_] != '}'); ++at_) {
      if (text_[at_] == '\n') bad("unterminated attribute list");
      if (text_[at_] == '\\')
        ++at_;
      else if (text_[at_] == '"')
        in_string = !in_string;
    }
    expect("}");
    return start;
  }

  void read_attrs(const std::string& op_name, Attrs& attributes, size_t list, const std::vector<Type>& types) {
    const size_t resume = at_;
    at_ = list;
    while (!take("}")) {
      const std::string field = word();
      expect("=");
      FieldReader reader{*this, field, types[0]};
      std::visit([&](auto& s) { visit_fields(s, reader); }, attributes);
      if (!reader.found) {
        std::vector<std::string> known;
        for (const OpAttribute& a : attributes_of(attributes)) known.push_back(a.name);
        bad("unknown attribute `", field, "` of ", op_name, ": expected ", known.empty() ? "none" : join(known, ", "),
            ", got `", field, "`");
      }
      if (!peek("}")) expect(",");
    }
    at_ = resume;
  }

  void node(Graph& g, Names& names) {
    std::vector<int64_t> ids;
    do {
      expect("%");
      ids.push_back(number<int64_t>());
    } while (take(","));
    expect("=");
    const std::string op_name = word();
    Op op;
    if (!parse_op(op_name, op)) bad("unknown op `", op_name, "`");
    std::vector<Value> inputs;
    if (take("(")) {
      do inputs.push_back(reference(names));
      while (take(","));
      expect(")");
    }
    Attrs attributes = info(op).attrs;
    std::string leaf;
    size_t list = 0;
    if (peek("\"")) leaf = string();
    if (take("{")) list = skip_list();
    expect(":");
    std::vector<Type> types;
    do types.push_back(type());
    while (take(","));
    if (auto* a = std::get_if<LeafAttrs>(&attributes)) *a = {leaf, types[0]};
    if (auto* a = std::get_if<ConstantAttrs>(&attributes)) a->type = types[0];
    if (list) read_attrs(op_name, attributes, list, types);
    std::string scope;
    if (take("@")) scope = string();
    if (take("body")) {
      expect("{");
      if (++depth_ > 4) bad("bodies nested too deeply");
      auto* f = std::get_if<FusedAttrs>(&attributes);
      if (!f) bad(op_name, " has no body");
      f->body = std::make_shared<const Graph>(body());
      --depth_;
    }
    std::vector<Value> out;
    try {
      out = g.add(op, std::move(attributes), inputs, scope);
    } catch (const Error& e) {
      throw Error(ErrorKind::data, e.op(), e.message(), cat(source_, ":", line_));
    }
    if (out.size() != ids.size()) bad(op_name, " has ", out.size(), " results, got ", ids.size(), " names");
    for (size_t i = 0; i < out.size(); ++i) {
      if (i >= types.size() || !(g.type(out[i]) == types[i]))
        bad(op_name, ": result ", i, " is ", g.type(out[i]), ", not as written");
      if (!names.emplace(ids[i], out[i]).second) bad("%", ids[i], " is defined twice");
    }
  }

  // Statements up to the closing brace.
  Graph body() {
    Graph g;
    Names names;
    while (!take("}")) {
      if (peek("%")) {
        node(g, names);
      } else if (take("update")) {
        const Value state = reference(names);
        expect("=");
        g.updates.push_back({state, reference(names)});
        if (g.def(state).op != Op::state) bad("update of a value that is not a state");
        if (!(g.type(state) == g.type(g.updates.back().next))) bad("update of a state with another type");
      } else if (take("return")) {
        do g.outputs.push_back(reference(names));
        while (take(","));
      } else {
        bad("expected a node, `update`, `return` or `}`, got `", std::string_view(text_).substr(at_, 16), "`");
      }
    }
    return g;
  }

  const std::string& text_;
  std::string source_;
  int64_t batch_;
  size_t at_ = 0;
  int line_ = 1;
  int depth_ = 0;
};

}  // namespace

Graph parse(const std::string& text, const std::string& source) { return Parser(text, source, -1).file(); }

Graph parse_for_batch(const std::string& text, const std::string& source, int64_t batch) {
  return Parser(text, source, batch).file();
}

}  // namespace freight
