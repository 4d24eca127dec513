// freight.load_data: the data sets of images and arrays that the command trains on, as arrays (freight/_data.py).
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "freight/base/error.h"
#include "freight/data/source.h"
#include "train.h"

namespace freight::python {

namespace {

nb::tuple split_of(const data::Dataset& set) {
  return nb::make_tuple(wrap(from_array(set.images)), wrap(from_array(set.labels)));
}

// (x, y) of both splits, and the names of the classes.
nb::tuple load_data(const std::string& name_or_path, const std::string& data_dir) {
  data::TrainTest sets;
  {
    nb::gil_scoped_release released;
    const data::LoadOptions options{.data_dir = data_dir};
    const data::Source source(name_or_path, options);
    source.need();
    sets = source.load(options);
    if (sets.train.files) {
      fail(ErrorKind::data, source.where(),
           "contains image files, which are read batch by batch: fit(\"DIRECTORY\", input_shape=...) trains on them");
    }
  }
  return nb::make_tuple(split_of(sets.train), split_of(sets.test), sets.train.classes);
}

}  // namespace

void bind_datasets(nb::module_& m) { m.def("load_data", load_data); }

}  // namespace freight::python
