// See table_set.h.
#include "freight/data/table_set.h"

#include "freight/base/strings.h"
#include "freight/data/catalog.h"
#include "freight/data/cells.h"
#include "freight/io/file.h"

namespace freight::data {

namespace {

CatalogEntry entry_of(const std::string& name, const std::string& description, CatalogEntry rest) {
  rest.name = name;
  rest.description = description;
  rest.folders = {cat("tabular/", name), name};
  return rest;
}

// The file under one of its two names, plain or packed; the plain one where there is neither.
std::string plain_or_packed(const std::string& folder, const std::string& name) {
  const std::string plain = cat(folder, "/", name);
  return !io::file_exists(plain) && io::file_exists(plain + ".gz") ? plain + ".gz" : plain;
}

}  // namespace

std::vector<CatalogEntry> table_entries() {
  // The attributes of adult.names; the literature calls its classes the income.
  const std::vector<std::string> adult = {
      "age",          "workclass", "fnlwgt", "education",    "education-num", "marital-status", "occupation",
      "relationship", "race",      "sex",    "capital-gain", "capital-loss",  "hours-per-week", "native-country",
      "income"};
  // Six numbers of a hull, and the resistance that was measured.
  const std::vector<std::string> yacht = {"buoyancy_position",   "prismatic_coefficient", "length_displacement_ratio",
                                          "beam_draught_ratio",  "length_beam_ratio",     "froude_number",
                                          "residuary_resistance"};
  return {
      entry_of(
          "adult", "people of a census, who earn more than 50,000 dollars or not (Kohavi, Becker 1996)",
          {.train = 32561,
           .test = 16281,
           .classes = 2,
           .shape = "14 columns",
           .files = {{"adult.data.gz", "c7a2b4716a97f930123e0baf879188d701e798172631a654fc703d4b082907f3", 408969},
                     {"adult.test.gz", "8a2c1bffa6e7ce5abfa43881ae5e87c4311ebc2b3cd526c9c40a43f19f06f799", 205254}},
           .table =
               TableSet{
                   .train = {{"adult.data"}}, .test = {{"adult.test"}, 1, "."}, .target = "income", .names = adult}}),
      entry_of(
          "agaricus", "mushrooms, edible or poisonous, as 126 yes or no (Schlimmer 1987)",
          {.train = 6513,
           .test = 1611,
           .classes = 2,
           .shape = "126 columns",
           .files = {{"agaricus.txt.train.gz", "43be55ee778cfab4045cf728236136253a5b731025c07513b16e297736469eb8",
                      28733},
                     {"agaricus.txt.test", "765db79391141953d890ce197fe828a621d6487fbba4de5e4d2217bd140371c0", 183611},
                     {"featmap.txt", "846f08e3cfa39e459260ffe96dfcc37d34f330d8e661fbb34a87b8a9ffedae5d", 3203}},
           .table = TableSet{.train = {{"agaricus.txt.train"}}, .test = {{"agaricus.txt.test"}}, .target = "label"}}),
      entry_of(
          "california_housing", "median house values of districts of California in 1990 (Pace, Barry 1997)",
          {.train = 20640,
           .shape = "9 columns",
           .files = {{"housing.csv.gz", "172bf1252dec04c4e3179b95aa7ef7626adeb0a4ef3addd40b9c2510dfbd7585", 395939}},
           .table = TableSet{.train = {{"housing.csv"}}, .test = {}, .target = "median_house_value"}}),
      entry_of("casp", "how far models of proteins are from the truth, by nine properties (Rana 2013)",
               {.train = 45730,
                .shape = "9 columns",
                .files = {{"CASP.csv.gz", "cbe03f2a823a48c05c70e59fd135551380d28cf82f4d3090f1ab1592daecffde", 1654371}},
                .table = TableSet{.train = {{"CASP.csv"}}, .test = {}, .target = "RMSD"}}),
      entry_of("ccpp", "the output of a power plant by four readings of its surroundings (Tüfekci, Kaya 2014)",
               {.train = 9568,
                .shape = "4 columns",
                .files = {{"CCPP.csv", "12ae0a27d19e4f1ecb0c3df54804e9f8455743ca700865af9e77bb23fe2f1cb3", 318265}},
                .table = TableSet{.train = {{"CCPP.csv"}}, .test = {}, .target = "PE"}}),
      entry_of(
          "concrete", "the strength of concrete by what it is made of, and its age (Yeh 1998)",
          {.train = 1030,
           .shape = "8 columns",
           .files = {{"Concrete_Data.csv", "63ef5aeb287add256681d54e0b91bc674980b9784428e035a7c7ebf1564ede6f", 59287}},
           .table = TableSet{.train = {{"Concrete_Data.csv"}},
                             .test = {},
                             .target = "Concrete compressive strength(MPa, megapascals)"}}),
      entry_of(
          "energy", "the heating load of buildings by their shape (Tsanas, Xifara 2012)",
          {.train = 768,
           .shape = "8 columns",
           .files = {{"ENB2012_data.txt", "7e6ffdc63741ac00de90f1aa1d7e6523dbfdf11ca30ee88fed555740b5133d7d", 49119}},
           // Y2, the cooling load, is measured together with Y1: who knows one needs no model of the other.
           .table = TableSet{.train = {{"ENB2012_data.txt"}}, .test = {}, .target = "Y1", .drop = {"Y2"}}}),
      entry_of(
          "titanic", "passengers of the Titanic, who survived or not",
          {.train = 891,
           .classes = 2,
           .shape = "10 columns",
           .files = {{"train.csv", "14769fb1850e2d26d8e6db0ee49c213878040432827e39b13caaa15603c6598f", 61904}},
           .table = TableSet{.train = {{"train.csv"}}, .test = {}, .target = "Survived", .drop = {"PassengerId"}}}),
      entry_of(
          "wine_quality", "quality scores of red and white wines from eleven measurements (Cortez et al. 2009)",
          {.train = 6497,
           .shape = "12 columns",
           .files = {{"winequality-red.csv", "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e", 84199},
                     {"winequality-white.csv", "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
                      264426}},
           .table = TableSet{.train = {{"winequality-red.csv", "winequality-white.csv"}},
                             .test = {},
                             .target = "quality",
                             .file_column = "color",
                             .file_words = {"red", "white"}}}),
      entry_of("yacht", "the resistance of yachts by the shape of their hulls (Gerritsma et al. 1981)",
               {.train = 308,
                .shape = "6 columns",
                .files = {{"yacht_hydrodynamics.data",
                           "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1", 11487}},
                .table = TableSet{.train = {{"yacht_hydrodynamics.data"}},
                                  .test = {},
                                  .target = "residuary_resistance",
                                  .names = yacht}}),
  };
}

TableSet table_at(const std::string& path) {
  std::string folder = path;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const std::string name = folder.substr(folder.rfind('/') + 1);
  const CatalogEntry* const entry = find_entry(name);
  if (!entry || !entry->table || !io::file_exists(plain_or_packed(folder, entry->table->train.files[0]))) {
    return {.train = {.files = {path}}, .test = {}, .target = {}};
  }
  TableSet set = *entry->table;
  for (TablePart* part : {&set.train, &set.test}) {
    for (std::string& file : part->files) file = plain_or_packed(folder, file);
  }
  return set;
}

Cells read_part(const TableSet& set, const TablePart& part, CellsAsked asked) {
  if (asked.names.empty()) asked.names = set.names;
  asked.skip_lines = part.skip_lines;
  asked.file_column = set.file_column;
  asked.file_words = set.file_words;
  Cells cells = part.cells ? part.cells(asked) : read_cells(part.files, asked);
  if (part.target_ending.empty()) return cells;
  for (CellColumn& column : cells.columns) {
    if (column.name == set.target && column.is_words()) column.words.cut_endings(part.target_ending);
  }
  return cells;
}

}  // namespace freight::data
