// `freight data preview`: a page of training samples as a run sees them.
#include <cstdio>

#include "command.h"
#include "config_options.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/report/preview.h"
#include "freight/train/config.h"
#include "freight/train/learner.h"
#include "options.h"
#include "output_path.h"

namespace freight::app {

namespace {

struct PreviewFlags {
  std::string output;
  report::PreviewOptions preview;
};

std::unique_ptr<Options> preview_options(train::Config& c, PreviewFlags& f) {
  auto o = std::make_unique<Options>(
      "data preview", "Writes an HTML page of training samples as a run sees them: augmented, or as tokens.",
      "DATA -o PAGE.html [options]",
      "It takes the flags of freight train:\n"
      "  freight data preview photos --rand-augment 2 --mixup-alpha 0.2 -o page.html");
  o->positional("data", &c.data, "images or texts: a built-in dataset, a directory or a file", false);
  declare_config(*o, c, "Output");
  o->group("The page");
  o->add("-o,--output", &f.output, "the file to write", {.value = "PAGE.html", .aliases = {"--out"}});
  o->add("--preview-epochs", &f.preview.epochs, "epochs to show", {.min = 1, .max = 100});
  o->add("--preview-samples", &f.preview.samples, "samples to show of each epoch", {.min = 1, .max = 1000});
  o->essentials({"data", "--output", "--preview-epochs", "--preview-samples", "--recipe", "--model",
                 "--train-crop-size", "--flip", "--rand-augment", "--color-jitter", "--random-erase", "--mixup-alpha",
                 "--cutmix-alpha", "--seed", "--help"});
  return o;
}

}  // namespace

int data_preview_command(const Args& args) {
  train::Config probe;
  PreviewFlags flags;
  preview_options(probe, flags)->peek(args);
  const data::Source source = train::source_of(probe);
  train::Config config = train::recipe(source, probe.recipe);
  train::set_picture_sizes(config, probe);
  if (const std::string model = train::asked_model(probe, source); !model.empty()) {
    train::set_model(config, model, source);
  }
  flags = {};
  const std::unique_ptr<Options> o = preview_options(config, flags);
  if (o->parse(args) == Options::Outcome::done) return 0;
  need_given("-o", !flags.output.empty(), "data preview");
  check_output("-o", flags.output, {source.path()});
  train::validate(config);
  const std::string page = report::preview_page(config, source, flags.preview);
  io::write_file_atomic(flags.output, std::string_view(page));
  std::printf("%s: %s\n", flags.output.c_str(), human_bytes(static_cast<double>(page.size())).c_str());
  return 0;
}

}  // namespace freight::app
