// See image_folder.h.
#include "freight/data/image_folder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <thread>
#include <tuple>

#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/data/class_names.h"
#include "freight/data/groups.h"
#include "freight/data/image_list.h"
#include "freight/io/image.h"

namespace freight::data {

namespace fs = std::filesystem;

namespace {
constexpr int kDepth = 16;  // of folders within a class: more is a loop of links
constexpr int64_t kLargestSide = 16384;
const std::vector<std::string> kTrainNames = {"train"}, kTestNames = {"test"},
                               kValNames = {"val", "valid", "validation"};

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}
bool is_plain_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Images below `dir`, and what else lies there.
void collect(const FolderListing& listing, const std::string& dir, int depth, std::vector<std::string>& images,
             std::vector<std::string>& others) {
  if (depth > kDepth)
    fail(ErrorKind::data, dir, "folders are nested more than ", kDepth, " deep: is this a loop of links?");
  for (const FolderListing::Entry& e : listing.entries(dir)) {
    std::string path = (fs::path(dir) / e.name).string();
    if (e.folder) {
      collect(listing, path, depth + 1, images, others);
    } else {
      (io::is_image_name(path) ? images : others).push_back(std::move(path));
    }
  }
}

std::vector<std::string> class_folders(const FolderListing& listing, const std::string& dir) {
  std::vector<std::string> names;
  for (const FolderListing::Entry& e : listing.entries(dir)) {
    if (e.folder) names.push_back(e.name);
  }
  return names;
}

// True where there is an image in the folder, or in one that lies up to `depth` deeper.
bool holds_images(const FolderListing& listing, const std::string& dir, int depth) {
  const std::vector<FolderListing::Entry>& all = listing.entries(dir);
  return std::any_of(all.begin(), all.end(), [&](const FolderListing::Entry& e) {
    if (!e.folder) return io::is_image_name(e.name);
    return depth > 0 && holds_images(listing, (fs::path(dir) / e.name).string(), depth - 1);
  });
}

// Says which files were not read.
void note_others(const std::vector<std::string>& others, std::vector<std::string>& notes) {
  if (others.empty()) return;
  notes.push_back(cat(with_commas(static_cast<int64_t>(others.size())),
                      others.size() == 1 ? " file was" : " files were", " not read: ", io::count_by_ending(others),
                      "; the first is ", others[0]));
}

// Pictures that lie beside the folders of the classes, and so have none.
void note_pictures_beside(const FolderListing& listing, const std::string& dir, std::vector<std::string>& notes) {
  std::vector<std::string> found;
  for (const FolderListing::Entry& e : listing.entries(dir)) {
    const bool picture = io::is_image_name(e.name) || io::is_foreign_image_name(e.name);
    if (picture && !e.folder) found.push_back((fs::path(dir) / e.name).string());
  }
  if (found.empty()) return;
  notes.push_back(cat(with_commas(static_cast<int64_t>(found.size())), found.size() == 1 ? " image is" : " images are",
                      " in ", dir, " itself, in no folder of a class, and ", found.size() == 1 ? "was" : "were",
                      " not read; the first is ", found[0]));
}

// Class number by name. A class of `dir` that is not among `classes` is an error.
ImageListing list_folders(const FolderListing& listing, const std::string& dir, const std::vector<std::string>& classes,
                          const std::string& classes_of) {
  ImageListing out{.where = dir, .paths = {}, .labels = {}, .notes = {}};
  std::vector<std::string> others;
  for (const std::string& name : class_folders(listing, dir)) {
    const auto it = std::lower_bound(classes.begin(), classes.end(), name);
    if (it == classes.end() || *it != name) {
      fail(ErrorKind::data, cat(dir, "/", name), "class ", name, " is not in ", classes_of, ", whose classes are ",
           join(classes, ", "), class_hint(name, classes));
    }
    const size_t before = out.paths.size(), others_before = others.size();
    collect(listing, cat(dir, "/", name), 0, out.paths, others);
    if (out.paths.size() == before) {
      fail(ErrorKind::data, cat(dir, "/", name), "the folder of class ", name, " has no images (", io::image_endings(),
           "); ", others.size() - others_before, " other files",
           others.size() == others_before
               ? ""
               : ": " + io::count_by_ending({others.begin() + static_cast<ptrdiff_t>(others_before), others.end()}),
           "; remove it or fill it");
    }
    out.labels.resize(out.paths.size(), it - classes.begin());
  }
  note_others(others, out.notes);
  note_pictures_beside(listing, dir, out.notes);
  return out;
}

std::string existing(const std::string& root, const std::vector<std::string>& names, const char* ending) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const std::string path = cat(root, "/", name, ending);
    if (*ending == 0 ? is_folder(path) : is_plain_file(path)) found.push_back(path);
  }
  if (found.size() > 1) fail(ErrorKind::data, root, "has ", found[0], " and ", found[1], ": keep one of them");
  return found.empty() ? "" : found[0];
}

// Holds out a share of every class, or of the groups.
std::pair<ImageListing, ImageListing> divided(const ImageListing& all, size_t classes, const Splitting& splitting) {
  const bool targets = all.targets.defined();
  const Strata strata = targets ? strata_of(all.targets) : Strata{all.labels, classes};
  const std::vector<bool> is_validation = held_out_samples(strata, all.groups, splitting, all.where);
  ImageListing train{.where = all.where, .paths = {}, .labels = {}, .notes = all.notes};
  ImageListing val{.where = all.where, .paths = {}, .labels = {}, .notes = {}};
  train.target_names = val.target_names = all.target_names;
  std::vector<int64_t> in_train, in_val;
  for (size_t i = 0; i < is_validation.size(); ++i) {
    ImageListing& to = is_validation[i] ? val : train;
    to.paths.push_back(all.paths[i]);
    if (!targets) to.labels.push_back(all.labels[i]);
    if (!all.groups.empty()) to.groups.push_back(all.groups[i]);
    (is_validation[i] ? in_val : in_train).push_back(static_cast<int64_t>(i));
  }
  if (targets) {
    train.targets = selected_rows(all.targets, in_train);
    val.targets = selected_rows(all.targets, in_val);
  }
  val.notes.push_back(
      cat(describe_split(is_validation, all.groups, splitting, cat(targets ? "" : "each class of ", all.where)),
          " for validation, seed ", splitting.seed));
  return {train, val};
}

Dataset dataset_of(ImageListing&& l, const std::string& name, const char* part, const std::vector<std::string>& classes,
                   const ImageGeometry& geometry) {
  Dataset set;
  set.name = name;
  set.split = part;
  set.labels = l.targets.defined() ? l.targets : Array::of<int64_t>(l.labels, {static_cast<int64_t>(l.labels.size())});
  if (classes.empty()) set.targets = l.target_names;
  set.groups = group_numbers(l.groups);
  set.files = std::make_shared<ImageFiles>(std::move(l.paths), geometry);
  set.classes = classes;
  set.mean = {0.485f, 0.456f, 0.406f};
  set.std = {0.229f, 0.224f, 0.225f};
  set.note = join(l.notes, "; ");
  set.validate(l.where, l.where);
  return set;
}

// Sizes that are not given follow from the others.
std::pair<ImageGeometry, ImageGeometry> geometries(const ImageOptions& o) {
  const auto side = [](const char* flag, int64_t given, int64_t otherwise) {
    need_between(flag, "pixels, or 0 for the default", static_cast<double>(given), 0, kLargestSide);
    return given == 0 ? otherwise : given;
  };
  const int64_t train = side("--train-crop-size", o.train_crop, 224);
  const int64_t crop = side("--val-crop-size", o.val_crop, train);
  const int64_t resize = side("--val-resize-size", o.val_resize, (crop * 256 + 112) / 224);
  need_at_least("--val-resize-size", "the crop or more", static_cast<double>(resize), static_cast<double>(crop));
  // The training part can be evaluated as well: then in the same proportion as the other.
  const int64_t train_resize = std::max(train, (train * resize + crop / 2) / crop);
  return {{.channels = 3, .rows = train, .columns = train, .resize = train_resize, .orientation = o.orientation},
          {.channels = 3, .rows = crop, .columns = crop, .resize = resize, .orientation = o.orientation}};
}
}  // namespace

bool is_image_source(const std::string& path, const FolderListing& listing) {
  if (is_image_list(path)) return true;
  if (!is_folder(path)) return false;
  if (is_image_list(path + "/train.csv")) return true;
  const std::string root = is_folder(path + "/train") ? path + "/train" : path;
  const std::vector<std::string> classes = class_folders(listing, root);
  const auto holds = [&](int depth) {
    return [&, depth](const std::string& name) { return holds_images(listing, cat(root, "/", name), depth); };
  };
  // A folder with images in it is a class; further down they may belong to a data set among others, unless all do.
  if (std::any_of(classes.begin(), classes.end(), holds(0))) return true;
  return !classes.empty() && std::all_of(classes.begin(), classes.end(), holds(kDepth));
}

TrainTest load_image_source(const std::string& path, const std::string& name, const ImageOptions& o,
                            const FolderListing& listing) {
  const auto [train_geometry, val_geometry] = geometries(o);
  need_val_split(o.val_split, path, {});
  const bool csv = !is_folder(path), lists = csv || is_plain_file(path + "/train.csv");
  const char* ending = lists ? ".csv" : "";
  std::string train_at = csv ? path : existing(path, kTrainNames, ending), val_at, test_at;
  if (train_at.empty()) {
    train_at = path;  // class folders alone
  } else if (!csv) {
    val_at = existing(path, kValNames, ending);
    test_at = existing(path, kTestNames, ending);
  }
  const bool has_both = !val_at.empty() && !test_at.empty();
  std::string held_out = val_at.empty() || (has_both && o.held_out == HeldOut::test) ? test_at : val_at;
  if (!held_out.empty() && o.val_split > 0) {
    need_val_split(o.val_split, path, val_at);
    if (o.held_out != HeldOut::test) held_out.clear();  // the test part stays untouched
  }
  if (!lists && o.targets.kind != TargetKind::classes) {
    fail(ErrorKind::usage, "--task", path,
         " has a folder for each class: expected a list of images, a CSV file with their paths and targets");
  }
  std::vector<std::string> classes = o.targets.labels;
  if (!lists && !o.targets.group_column.empty()) {
    fail(ErrorKind::usage, "--group-column", path,
         " has a folder for each class: expected a list of images with that column (train.csv)");
  }
  if (!lists) {
    classes = class_folders(listing, train_at);
    if (classes.empty()) fail(ErrorKind::data, train_at, "has no class folders");
  }
  const auto list = [&](const std::string& at) {
    return lists ? read_image_list(at, classes, o.targets) : list_folders(listing, at, classes, train_at);
  };
  ImageListing train = list(train_at), val;
  if (!held_out.empty()) {
    val = list(held_out);
    std::erase_if(val.notes, [&](const std::string& note) {  // how the columns were read is said once
      return std::find(train.notes.begin(), train.notes.end(), note) != train.notes.end();
    });
    if (val.paths.empty()) fail(ErrorKind::data, held_out, "has no class folders");
  } else if (o.undivided == Undivided::whole) {
    val = train;
  } else {
    const double share = o.val_split < 0 ? kDefaultSplit : o.val_split;
    need_validation(share, path);
    std::tie(train, val) =
        divided(train, classes.size(), {.share = share, .seed = o.split_seed, .group_column = o.targets.group_column});
    if (val.paths.empty())
      fail(ErrorKind::data, path, "too few images for a validation split: expected a class with two or more");
  }
  if (!held_out.empty()) {
    const std::string note = note_on_crossing(train.groups, val.groups, o.targets.group_column);
    if (!note.empty()) train.notes.push_back(note);
  }
  if (const std::string note = class_forms_note(classes); !note.empty()) train.notes.push_back(note);
  TrainTest sets{dataset_of(std::move(train), name, "train", classes, train_geometry),
                 dataset_of(std::move(val), name, "test", classes, val_geometry)};
  sets.train.undivided = sets.test.undivided = held_out.empty();
  sets.test.test_apart = !test_at.empty() && held_out != test_at;
  sets.test.validation = held_out.empty() ? o.undivided == Undivided::divide : held_out != test_at;
  return sets;
}

PixelStatistics pixel_statistics(const std::vector<std::string>& paths, io::Orientation orientation, int64_t most) {
  constexpr size_t kChannels = 3;
  struct Sums {
    std::array<double, kChannels> value{}, square{};  // means over the picture
    bool read = false;
  };
  const auto all = static_cast<int64_t>(paths.size());
  const int64_t n = std::min(all, most);
  std::vector<Sums> sums(static_cast<size_t>(n));
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < n; i = next++) {
      Sums& s = sums[static_cast<size_t>(i)];
      try {
        const Array image = io::load_image(paths[static_cast<size_t>(i * all / n)], orientation);
        const int64_t channels = image.shape()[2], pixels = image.numel() / channels;
        const auto* const x = image.data<uint8_t>();
        for (size_t c = 0; c < kChannels; ++c) {
          uint64_t value = 0, square = 0;
          const int64_t first = channels == 1 ? 0 : static_cast<int64_t>(c);
          for (int64_t at = first; at < image.numel(); at += channels) {
            value += x[at];
            square += static_cast<uint64_t>(x[at]) * x[at];
          }
          s.value[c] = static_cast<double>(value) / (255.0 * static_cast<double>(pixels));
          s.square[c] = static_cast<double>(square) / (255.0 * 255.0 * static_cast<double>(pixels));
        }
        s.read = true;
      } catch (const std::exception&) {  // freight data verify tells
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < thread_count(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  PixelStatistics out;
  out.pictures = std::count_if(sums.begin(), sums.end(), [](const Sums& s) { return s.read; });
  for (size_t c = 0; c < kChannels && out.pictures > 0; ++c) {
    double value = 0, square = 0;
    for (const Sums& s : sums) {
      value += s.value[c];
      square += s.square[c];
    }
    const double mean = value / static_cast<double>(out.pictures);
    out.mean.push_back(static_cast<float>(mean));
    out.std.push_back(
        static_cast<float>(std::sqrt(std::max(0.0, square / static_cast<double>(out.pictures) - mean * mean))));
  }
  return out;
}

std::vector<BadSample> check_images(const std::vector<std::string>& paths,
                                    const std::function<bool(int64_t, int64_t)>& poll) {
  std::vector<std::string> reasons(paths.size());
  std::atomic<size_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex one_at_a_time;
  int64_t done = 0;
  const auto work = [&] {
    for (size_t i = next++; i < paths.size() && !stopped; i = next++) {
      try {
        io::load_image(paths[i]);
      } catch (const Error& e) {
        reasons[i] = e.message();
      } catch (const std::exception& e) {  // out of memory
        reasons[i] = e.what();
      }
      const std::lock_guard lock(one_at_a_time);
      ++done;
      if (poll && !stopped && !poll(done, static_cast<int64_t>(paths.size()))) stopped = true;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < thread_count(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  std::vector<BadSample> bad;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!reasons[i].empty()) bad.push_back({paths[i], reasons[i]});
  }
  return bad;
}

}  // namespace freight::data
