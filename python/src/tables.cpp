// Models of tables in Python: fits of the library's learners to a table in memory, in a run like the command's, and
// predictions of saved models (freight/_estimators.py).
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/usage.h"
#include "freight/data/columns.h"
#include "freight/io/file.h"
#include "freight/store/bundle.h"
#include "freight/store/table_rows.h"
#include "freight/tables/learners.h"
#include "freight/tables/row_learner.h"
#include "freight/tables/xgboost_model.h"
#include "freight/trace/tensor.h"
#include "freight/train/config_fields.h"
#include "freight/train/trainer.h"
#include "tables.h"

namespace freight::python {

namespace {

using Column = nb::ndarray<nb::ndim<1>, nb::ro, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;

template <class T>
struct Strided {
  const T* at;
  int64_t stride;
  T operator[](int64_t i) const { return at[i * stride]; }
};

// Calls f with the elements of a column, of any type of numbers.
template <class F>
void with_elements(const Column& a, const std::string& name, F&& f) {
  const auto is = [&]<class T>(T) {
    if (a.dtype() != nb::dtype<T>()) return false;
    f(Strided<T>{static_cast<const T*>(a.data()), a.stride(0)});
    return true;
  };
  if (is(double()) || is(float()) || is(int64_t()) || is(int32_t()) || is(int16_t()) || is(int8_t()) ||
      is(uint64_t()) || is(uint32_t()) || is(uint16_t()) || is(uint8_t())) {
    return;
  }
  raise<TypeError>("column ", excerpt(name), ": expected numbers of 8 to 64 bits");
}

void add_numbers(Table& t, const std::string& name, const Column& a) {
  t.keep(std::make_shared<Column>(a));
  const auto rows = static_cast<int64_t>(a.shape(0));
  with_elements(a, name, [&](auto elements) {
    const auto number = [=](int64_t i) { return static_cast<double>(elements[i]); };
    t.add({name, {{.rows = rows, .number = numbers_by(number)}}}, rows);
  });
}

void add_matrix(Table& t, const std::vector<std::string>& names, const Matrix& a) {
  t.keep(std::make_shared<Matrix>(a));
  const auto rows = static_cast<int64_t>(a.shape(0));
  for (size_t k = 0; k < names.size(); ++k) {
    const Strided<double> column{a.data() + static_cast<int64_t>(k) * a.stride(1), a.stride(0)};
    t.add({names[k], {{.rows = rows, .number = numbers_by([=](int64_t i) { return column[i]; })}}}, rows);
  }
}

// The text of a string; of other objects but None, which is missing, TypeError names the column.
std::string_view text_in(nb::handle list, int64_t at, const std::string& column) {
  PyObject* const item = PyList_GetItem(list.ptr(), at);
  if (item == Py_None) return {};
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_Check(item) ? PyUnicode_AsUTF8AndSize(item, &size) : nullptr;
  if (!text) {
    PyErr_Clear();
    raise<TypeError>("column ", excerpt(column), ": expected strings or None, got ", nb::repr(item).c_str(), " in row ",
                     at);
  }
  return {text, static_cast<size_t>(size)};
}

void add_texts(Table& t, const std::string& name, const nb::list& texts) {
  t.keep(owner_of(texts));
  const auto rows = static_cast<int64_t>(nb::len(texts));
  t.add({name,
         {{.rows = rows,
           .text = [list = texts.ptr(), name](int64_t i, std::string&) { return text_in(list, i, name); }}}},
        rows);
}

void add_codes(Table& t, const std::string& name, const Column& codes, const nb::list& words) {
  t.keep(std::make_shared<Column>(codes));
  t.keep(owner_of(words));
  const auto rows = static_cast<int64_t>(codes.shape(0));
  with_elements(codes, name, [&](auto elements) {
    const auto code = [=](int64_t i) { return static_cast<int64_t>(elements[i]); };
    const auto text = [list = words.ptr(), code, name](int64_t i, std::string&) -> std::string_view {
      return code(i) < 0 ? std::string_view() : text_in(list, code(i), name);
    };
    t.add({name, {{.rows = rows, .text = text, .code = code}}}, rows);
  });
}

void add_times(Table& t, const std::string& name,
               const nb::ndarray<const int64_t, nb::ndim<1>, nb::device::cpu>& values, int64_t per_second) {
  t.keep(std::make_shared<Column>(values));
  const auto value = [at = values.data(), stride = values.stride(0)](int64_t i) { return at[i * stride]; };
  const auto missing = [value](int64_t i) { return value(i) == INT64_MIN; };  // NumPy's NaT
  const auto rows = static_cast<int64_t>(values.shape(0));
  t.add({name, {times(rows, value, missing, per_second)}}, rows);
}

// Sets the field of a flag from a Python value; TypeError names the flag.
void set_field(train::Config& c, const std::string& flag, nb::handle value) {
  const auto& fields = train::config_fields();
  const auto f = std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.flag() == flag; });
  FREIGHT_CHECK(f != fields.end(), "no field ", flag);
  if (f->rule && nb::isinstance<nb::str>(value)) {
    c.*f->rule = text_of(value);
    return;
  }
  std::visit(
      [&](auto member) {
        using T = std::decay_t<decltype(c.*member)>;
        T& to = c.*member;
        if (!nb::try_cast(value, to)) {
          raise<TypeError>(flag.substr(2), ": expected ",
                           std::is_same_v<T, bool>          ? "a bool"
                           : std::is_same_v<T, std::string> ? "a string"
                           : std::is_same_v<T, double>      ? "a number"
                                                            : "a whole number",
                           ", got ", nb::repr(value).c_str());
        }
        if constexpr (std::is_same_v<T, std::string>) to = f->meaning(to);
      },
      f->member);
}

// Ends the fit after an interrupt (Ctrl-C), which is raised when the run has ended.
class Watch : public train::Observer {
 public:
  train::AfterStep on_step(const train::StepReport&) override { return check(); }
  train::AfterStep on_comparison(const std::string&) override { return check(); }
  void on_start(const train::RunSummary& s) override {
    notes = s.notes;
    notes.insert(notes.end(), s.warnings.begin(), s.warnings.end());
  }
  void raise_error() {
    if (error_) throw nb::python_error(std::move(*error_));
  }
  std::vector<std::string> notes;

 private:
  train::AfterStep check() {
    nb::gil_scoped_acquire gil;
    if (!error_ && PyErr_CheckSignals() != 0) error_.emplace();
    return {.stop = error_.has_value()};
  }
  std::optional<nb::python_error> error_;
};

// Fits a model to a table. `settings` are values by flag. The run writes to `folder`. With `names` the classes of the
// target are places in these, and get them. Returns the bytes of the saved model, what a user should know of the data,
// and the rounds: of trees those that predict, which early stopping may have cut to the best ones. `notes` is for the
// package, in the file.
nb::tuple fit(const std::string& model, const Table& table, const std::string& target, const nb::dict& settings,
              const std::string& folder, const std::vector<std::string>& names,
              const std::optional<std::string>& notes) {
  const SeedKept seed_kept;
  tables::register_learners();
  data::TableSet set;
  set.train.cells = [&table](const data::CellsAsked& asked) {
    nb::gil_scoped_acquire gil;
    return table.cells(asked, 0, table.rows());
  };
  set.train.cell_count = static_cast<double>(table.rows()) * static_cast<double>(table.columns().size());
  const data::Source source = data::Source::of_table(std::move(set), "X");
  train::Config c = train::recipe(source);
  train::set_model(c, model, source);
  c.data = "X";
  c.target = target;
  c.output_dir = folder;
  std::set<std::string> given;
  for (const auto& [flag, value] : settings) {
    given.insert(text_of(flag));
    set_field(c, text_of(flag), value);
  }
  Watch watch;
  train::Result result;
  {
    nb::gil_scoped_release released;
    const auto run = [&] {
      return train::train(c, watch,
                          {.source = source, .flag_is_given = [&](const std::string& f) { return given.contains(f); }});
    };
    try {
      result = run();
    } catch (const Error& e) {
      // Rows of too few or too rare classes cannot be split: all are fitted then.
      if (e.op() != "--val-split" || given.contains("--val-split")) throw;
      c.val_split = 0;
      given.insert("--val-split");
      result = run();
    }
  }
  watch.raise_error();
  store::Bundle bundle = store::load_bundle(result.model_path);
  const auto* trees = dynamic_cast<const tables::XgboostModel*>(bundle.rows.get());
  if (!names.empty() || notes) {
    if (!names.empty()) {
      for (std::string& c : bundle.classes) c = names.at(std::stoul(c));
    }
    io::SafeTensors file = store::to_file(bundle);
    if (notes) file.metadata["freight.python"] = *notes;
    io::save_safetensors(result.model_path, store::sealed(std::move(file)));
  }
  const auto bytes = io::read_file(result.model_path);
  return nb::make_tuple(nb::bytes(bytes.data(), bytes.size()), watch.notes, trees ? trees->rounds() : result.steps);
}

// Writes the file of a model, its contents being `bytes`, with other notes of the package.
void save_noted(const nb::bytes& bytes, const std::string& notes, const std::string& path) {
  const io::ByteView view(static_cast<const uint8_t*>(bytes.data()), bytes.size());
  io::SafeTensors file = io::parse_safetensors(view, "the model");
  file.metadata["freight.python"] = notes;
  io::save_safetensors(path, store::sealed(std::move(file)));
}

// Categories that a column may have, by its name.
using Declared = std::map<std::string, std::vector<std::string>>;

// A saved model of a table; of a network nothing but that it is one.
class TableModel {
 public:
  explicit TableModel(const nb::bytes& bytes) {
    tables::register_learners();
    const io::ByteView view(static_cast<const uint8_t*>(bytes.data()), bytes.size());
    bundle_ = store::from_file(io::parse_safetensors(view, "the model"), "the model");
  }

  const store::Bundle& bundle() const { return bundle_; }
  std::vector<std::string> sources() const { return store::sources_of(bundle_.columns); }

  // f32 (rows, outputs): probabilities or values. `strict`: ValueError for a category that training did not see, unless
  // `declared` has it for the column.
  nb::ndarray<nb::numpy, float> predict(const Table& table, bool strict, const Declared& declared) const {
    const auto run = [&](const Array& values) { return bundle_.rows->run(values); };
    return computed<float>(table, strict, declared, bundle_.rows->outputs(), run);
  }
  // f64 (rows, groups): the sums behind probabilities; of two classes one, the log odds of the second.
  nb::ndarray<nb::numpy, double> margins(const Table& table, bool strict, const Declared& declared) const {
    const auto run = [&](const Array& values) { return bundle_.rows->margins(values); };
    return computed<double>(table, strict, declared, bundle_.rows->outputs() > 2 ? bundle_.rows->outputs() : 1, run);
  }

  // The categories of a table that the model does not know, by column: those of held-out rows, if it was fitted to it.
  Declared unknown(const Table& table) const {
    std::map<std::string, std::set<std::string>> found;
    const auto has_words = [](const store::Column& column) { return column.words; };
    if (std::none_of(bundle_.columns.begin(), bundle_.columns.end(), has_words)) return {};
    for_each_block(
        table, [&](const Array& values, const data::Cells& cells, const std::vector<size_t>& places, int64_t) {
          for_each_unknown(values, cells, places, [&](const store::Column& column, int64_t, const std::string& text) {
            found[column.name].insert(text);
          });
        });
    Declared out;
    for (const auto& [name, texts] : found) out[name] = {texts.begin(), texts.end()};
    return out;
  }

  // (weights (groups, terms), intercepts (groups), [(column, level, mean, scale) of each term]) of a linear model,
  // which is a sum of products: store/row_form.h; None for others. A level is -1 for a number, -2 where it marks
  // missing ones.
  nb::object linear() const {
    const store::RowForm form = bundle_.rows->form();
    const auto* const sums = std::get_if<store::LinearForm>(&form);
    if (!sums) return nb::none();
    nb::list terms;
    for (const store::LinearForm::Term& t : sums->terms) {
      const store::Column& column = bundle_.columns[static_cast<size_t>(t.column)];
      const bool plain = !t.words && !column.date();
      terms.append(nb::make_tuple(column.source_name(), plain ? t.level : 0, t.mean, t.scale));
    }
    return nb::make_tuple(sums->weights.to_vector<double>(), sums->intercepts.to_vector<double>(), terms);
  }

  // The gain of each source column, summed over its features; empty for a model without that.
  std::vector<double> importance() const {
    for (const store::Importance& all : bundle_.rows->importance()) {
      if (all.measure != "gain") continue;
      const std::vector<std::string> names = sources();
      std::vector<double> gains(names.size());
      for (size_t k = 0; k < bundle_.columns.size(); ++k) {
        const auto at = std::find(names.begin(), names.end(), bundle_.columns[k].source_name());
        gains[static_cast<size_t>(at - names.begin())] += all.columns[k];
      }
      return gains;
    }
    return {};
  }

 private:
  // Calls f(values, cells, places of the columns among them, first row) for all rows, block by block, without the GIL.
  template <class F>
  void for_each_block(const Table& table, F&& f) const {
    const int64_t rows = table.rows();
    std::vector<size_t> places;
    const data::CellsAsked asked{.kinds =
                                     [&](const data::TableHead& head) {
                                       places = store::places_of(bundle_.columns, head.names, "X");
                                       return store::kinds_of(bundle_.columns, places, head.names.size());
                                     },
                                 .times =
                                     [&](size_t column) {
                                       const auto at = std::find(places.begin(), places.end(), column);
                                       return at != places.end() &&
                                              bundle_.columns[static_cast<size_t>(at - places.begin())].date();
                                     }};
    constexpr int64_t kBlock = 1 << 16;  // rows that are predicted at once: their memory is small next to the table's
    std::vector<uint32_t> block;
    for (int64_t begin = 0; begin < rows; begin += kBlock) {
      const int64_t end = std::min(rows, begin + kBlock);
      const data::Cells cells = table.cells(asked, begin, end);
      nb::gil_scoped_release released;
      const store::TableRows all(bundle_.columns, cells, places);
      if (!all.faults().empty()) {
        const store::RowFault& fault = all.faults()[0];
        fail(ErrorKind::data, cat("X, row ", begin + fault.row), fault.reason);
      }
      block.resize(static_cast<size_t>(end - begin));
      std::iota(block.begin(), block.end(), 0u);
      f(all.values(block), cells, places, begin);
    }
  }

  // Returns the results of run(values) for all rows, T (rows, width).
  template <class T, class Run>
  nb::ndarray<nb::numpy, T> computed(const Table& table, bool strict, const Declared& declared, int64_t width,
                                     Run&& run) const {
    const int64_t rows = table.rows();
    auto* const out = new std::vector<T>(static_cast<size_t>(rows * width));
    const nb::capsule owner(out, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    for_each_block(
        table, [&](const Array& values, const data::Cells& cells, const std::vector<size_t>& places, int64_t begin) {
          if (strict) need_known(values, cells, places, begin, declared);
          const Array y = run(values);
          std::copy_n(y.data<T>(), y.numel(), out->begin() + begin * width);
        });
    const size_t shape[] = {static_cast<size_t>(rows), static_cast<size_t>(width)};
    return nb::ndarray<nb::numpy, T>(out->data(), 2, shape, owner);
  }
  // Calls f(column, row, text) for each category that the model does not know.
  template <class F>
  void for_each_unknown(const Array& values, const data::Cells& cells, const std::vector<size_t>& places, F&& f) const {
    const auto width = static_cast<int64_t>(places.size());
    for (int64_t k = 0; k < width; ++k) {
      const store::Column& column = bundle_.columns[static_cast<size_t>(k)];
      for (int64_t i = 0; column.words && i < values.shape()[0]; ++i) {
        if (values.data<double>()[i * width + k] != store::kUnknownWord) continue;
        f(column, i, cells.columns[places[static_cast<size_t>(k)]].text(i));
      }
    }
  }
  void need_known(const Array& values, const data::Cells& cells, const std::vector<size_t>& places, int64_t begin,
                  const Declared& declared) const {
    for_each_unknown(values, cells, places, [&](const store::Column& column, int64_t row, const std::string& text) {
      const auto own = declared.find(column.name);
      if (own != declared.end() && std::find(own->second.begin(), own->second.end(), text) != own->second.end()) return;
      fail(ErrorKind::data, cat("X, row ", begin + row), "column ", excerpt(column.name), ": expected one of the ",
           column.levels.size(), " categories of fit, got '", excerpt(text),
           "'; handle_unknown=\"ignore\" predicts such rows");
    });
  }
  store::Bundle bundle_;
};

// The settings of the learners of tables, by flag: (flag, doc, default).
nb::list settings() {
  tables::register_learners();
  // Settings of a run on any table, beside those that learners name; the rest of theirs is for files and machines.
  std::set<std::string> flags = {"--metric",    "--types", "--tune",      "--folds",  "--time-budget",
                                 "--val-split", "--seed",  "--threshold", "--device", "--deterministic"};
  for (const train::Learner* l : train::learners()) {
    if (const auto* const rows = dynamic_cast<const tables::RowLearner*>(l)) {
      for (const std::string& flag : rows->flags()) flags.insert(flag);
    }
  }
  for (const char* const of_file : {"--weight-column", "--xgboost", "--external-memory"}) flags.erase(of_file);
  nb::list out;
  for (const train::Field& f : train::config_fields()) {
    if (flags.contains(f.flag())) out.append(nb::make_tuple(f.flag(), f.help));
  }
  return out;
}

// True if a CSV file that has the text as a value says the same.
bool is_plain_word(const std::string& text) {
  return !text.empty() && data::trimmed(text) == text && !data::is_missing_cell(text) && !data::number_in(text);
}

}  // namespace

void bind_tables(nb::module_& m) {
  nb::class_<Table>(m, "Table")
      .def(nb::init<std::string>())
      .def("add_numbers", add_numbers)
      .def("add_matrix", add_matrix)
      .def("add_texts", add_texts)
      .def("add_codes", add_codes)
      .def("add_times", add_times)
      .def("add_arrow", add_arrow)
      .def("append", &Table::append)
      .def_prop_ro("rows", &Table::rows)
      .def_prop_ro("names", [](const Table& t) {
        std::vector<std::string> names;
        for (const InputColumn& c : t.columns()) names.push_back(c.name);
        return names;
      });
  nb::class_<TableModel>(m, "TableModel")
      .def(nb::init<nb::bytes>())
      .def("predict", &TableModel::predict)
      .def("margins", &TableModel::margins)
      .def("unknown", &TableModel::unknown)
      .def("importance", &TableModel::importance)
      .def("linear", &TableModel::linear)
      .def_prop_ro("is_network", [](const TableModel& t) { return t.bundle().net(); })
      .def_prop_ro("sources", &TableModel::sources)
      .def_prop_ro("classes", [](const TableModel& t) { return t.bundle().classes; })
      .def_prop_ro("learner", [](const TableModel& t) { return t.bundle().learner; })
      .def_prop_ro("threshold", [](const TableModel& t) { return t.bundle().threshold; });
  m.def("fit_table", fit, nb::arg("model"), nb::arg("table"), nb::arg("target"), nb::arg("settings"), nb::arg("folder"),
        nb::arg("names"), nb::arg("notes").none());
  m.def("save_noted", save_noted);
  m.def("table_settings", settings);
  m.def("is_plain_word", is_plain_word);
}

}  // namespace freight::python
