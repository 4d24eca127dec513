// Text as a Task: documents with a class each, or a corpus whose next token is predicted; see task.h.
#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/data/tokens.h"
#include "freight/train/evaluate.h"
#include "freight/train/task.h"
#include "freight/train/text.h"
#include "freight/train/trained_on.h"

namespace freight::train {

namespace {

constexpr int64_t kUsualLength = 256;

class TextTask : public Task {
 public:
  TextTask(const Config& config, const data::Source& source, const data::BadSamples& bad, const Own& own)
      : c_(config), text_(source.load_text(load_options(config, bad))) {
    refuse_image_flags();
    const std::string targets = text_.classification() || text_.corpus() ? "classes"
                                : text_.classes.empty()                  ? "values"
                                                                         : "labels";
    need_task(c_, targets);
    refuse_given({{"--sample-by", c_.sample_by == "class" && !text_.classification()}},
                 cat("class needs class labels: ", c_.data,
                     text_.corpus() ? std::string(" is a corpus") : cat(" has ", targets)));
    refuse_given({{"--label-smoothing", c_.label_smoothing > 0 && targets != "classes"}},
                 cat("needs class labels: ", c_.data, " has ", targets));
    if (c_.model.empty()) {
      fail(ErrorKind::usage, "--model", "is missing: ", c_.data,
           text_.corpus() ? " is a corpus" : " contains documents",
           text_.corpus()
               ? " and needs a language model: gpt_char, or a spec FILE.json whose result is (N, T, vocabulary)"
               : " and needs a network that reads text: textcnn, or a spec FILE.json");
    }
    const bool file = own.model || ends_with(c_.model, ".json") || c_.model.find('/') != std::string::npos;
    models::Model spec;
    if (file) {
      spec = own.model ? *own.model : models::from_spec_file(c_.model);
      if (!spec.reads_tokens()) {
        fail(ErrorKind::usage, "--model", c_.model, " does not read text: it expects ", spec.input,
             ", expected \"input\": [T] and \"input_dtype\": \"i32\"");
      }
    }
    learn(spec, own.pretrained ? own.pretrained->tokenizer : nullptr);
    choose_length(spec);
    model_ = file ? std::move(spec)
                  : models::create(c_.model, {.classes = classes_wanted(),
                                              .vocabulary = preprocessing_.tokenizer->size(),
                                              .length = preprocessing_.input[0],
                                              .layers = c_.layers,
                                              .width = c_.width,
                                              .bidirectional = c_.bidirectional,
                                              .dropout = c_.dropout});
    model_.input.shape = preprocessing_.input;
    set_loss(model_, c_, text_.train.targets);
    check(model_);
    // A net whose weights depend on the length has one length.
    std::vector<int64_t> lengths =
        text_.corpus() ? std::vector<int64_t>{} : data::bucket_lengths(preprocessing_.input[0]);
    std::erase_if(lengths, [&](int64_t l) { return !model_.takes({l}); });
    if (lengths.empty()) lengths = {preprocessing_.input[0]};
    preprocessing_.lengths = lengths;
    train_ = encoded(text_.train, preprocessing_, text_.corpus());
    test_ = encoded(text_.test, preprocessing_, text_.corpus());
  }

  models::Model make_model() const override { return model_; }
  store::Preprocessing preprocessing() const override { return preprocessing_; }
  std::vector<std::string> classes() const override { return text_.classes; }
  std::vector<std::string> targets() const override { return text_.targets; }

  std::unique_ptr<data::Feed> train_feed(const data::Share& share) const override {
    return data::share_of(text_feed(train_, preprocessing_, text_.corpus(), shuffled()), share);
  }
  std::unique_ptr<data::Feed> ordered_feed(int64_t batch_size) const override {
    if (text_.corpus()) return nullptr;
    return text_feed(train_, preprocessing_, false, {.batch_size = batch_size});
  }
  std::unique_ptr<data::Feed> numbers(Batches which, int64_t batch_size, const data::Share& share) const override {
    data::TokenFeedOptions options =
        which == Batches::train ? shuffled() : data::TokenFeedOptions{.batch_size = batch_size};
    options.numbers = true;
    const auto& set = which == Batches::test ? test_ : train_;
    return data::share_of(text_feed(set, preprocessing_, false, options), share);
  }
  std::unique_ptr<data::Feed> test_feed(int64_t batch_size, const data::Share& share) const override {
    return data::share_of(text_feed(test_, preprocessing_, text_.corpus(), {.batch_size = batch_size}), share);
  }
  std::pair<Type, Type> batch_types() const override {
    const Type x{DType::i32, {c_.batch_size, preprocessing_.input[0]}};
    const Array& targets = text_.train.targets;
    if (targets.defined()) return {x, {targets.dtype(), {c_.batch_size, targets.shape()[1]}}};
    return {x, text_.corpus() ? x : Type{DType::i64, {c_.batch_size}}};
  }

  ClassCounts train_classes() const override { return counted(text_.train); }
  ClassCounts test_classes() const override { return counted(text_.test); }
  int64_t train_count() const override { return count(*train_); }
  int64_t test_count() const override { return count(*test_); }
  uint64_t fingerprint() const override { return data::fingerprint(text_.train); }
  data::DocumentLengths lengths() const override {
    const std::vector<int64_t>& lengths = preprocessing_.lengths;
    if (text_.corpus() || lengths.size() < 2) return {};
    return {data::count_lengths(*train_, lengths), data::count_lengths(*test_, lengths)};
  }
  size_t kept_bytes() const override {
    if (c_.folds == 0) return 0;
    size_t sum = train_->tokens.size() * sizeof(int32_t);
    for (const std::string& text : text_.train.texts) sum += sizeof(std::string) + text.size();
    return sum;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    for (const data::TextPart* part : {&text_.train, &text_.test}) {
      if (!part->note.empty()) notes.push_back(part->note);
    }
    const data::Tokenizer& t = *preprocessing_.tokenizer;
    std::string line = cat("vocabulary of ", with_commas(t.size()), " (", to_string(t.kind()), "), ",
                           text_.corpus() ? "windows of " : "at most ", preprocessing_.input[0], " tokens");
    if (train_->cut > 0) {
      line += cat(", ", fixed(100.0 * static_cast<double>(train_->cut) / static_cast<double>(train_->count()), 1),
                  " % of the documents are truncated there");
    }
    notes.push_back(line);
    return notes;
  }
  bool test_apart() const override { return text_.test_apart; }
  bool validates() const override { return text_.validation; }
  const char* unit() const override { return text_.corpus() ? "tok" : "doc"; }
  std::string example() const override { return text_.corpus() ? "" : "--text \"...\""; }

  Array fold_labels() const override {
    if (text_.corpus()) return {};
    if (text_.train.targets.defined()) return data::fold_labels(text_.train.targets);
    return Array::of<int64_t>(text_.train.labels, {text_.train.count()});
  }
  Array fold_groups() const override { return text_.train.groups; }
  data::Source divided(const std::vector<int64_t>& train, const std::vector<int64_t>& held_out) const override {
    data::TextSet part;
    part.name = text_.name;
    part.classes = text_.classes;
    part.targets = text_.targets;
    part.train = data::selected(text_.train, train);
    part.test = data::selected(text_.train, held_out);
    part.validation = true;
    return data::Source(std::move(part));
  }
  std::vector<int64_t> test_order() const override {
    return text_.corpus() ? std::vector<int64_t>() : data::document_order(*test_, preprocessing_.lengths);
  }
  std::pair<std::string, std::vector<std::string>> sample_names() const override { return {"text", text_.train.texts}; }

 private:
  static data::LoadOptions load_options(const Config& c, const data::BadSamples& bad) {
    return {.data_dir = c.data_dir,
            .images = {},
            .text = {.text_column = c.text_column,
                     .label_column = c.label_column,
                     .val_split = c.val_split,
                     .split_seed = static_cast<uint64_t>(c.seed),
                     .held_out = {},
                     .bad = bad,
                     .targets = target_options(c.task, c.label_column, c.group_column)}};
  }

  data::TokenFeedOptions shuffled() const {
    return {.batch_size = c_.batch_size,
            .shuffle = true,
            .by_class = c_.sample_by == "class",
            .seed = static_cast<uint64_t>(c_.seed),
            .drop_last = true};
  }
  ClassCounts counted(const data::TextPart& part) const {
    return text_.classification() ? count_classes(text_.classes, part.labels) : ClassCounts{};
  }
  void refuse_image_flags() const { refuse_given(image_flags(c_), cat("is for images: ", c_.data, " is text")); }

  // Takes over the vocabulary of pretrained weights, whose embedding is by its numbers, or learns one.
  void learn(const models::Model& spec, const std::shared_ptr<const data::Tokenizer>& pretrained) {
    if (pretrained) {
      refuse_given({{"--tokenizer", c_.tokenizer != Config().tokenizer}, {"--vocabulary", c_.vocabulary > 0}},
                   cat("has no effect: the vocabulary is that of ", c_.weights));
      preprocessing_.tokenizer = pretrained;
      return;
    }
    data::TokenizerOptions o{.kind = text_.corpus() ? data::TokenizerKind::character : data::TokenizerKind::word,
                             .limit = c_.vocabulary,
                             .min_count = c_.min_count,
                             .exact = text_.corpus()};
    data::parse_tokenizer_kind(c_.tokenizer, o.kind);  // "auto" changes nothing
    // A spec has a table of a certain size; of characters none is given up unasked.
    const int64_t rows = spec.net ? spec.vocabulary() : 0;
    if (rows > 0 && o.limit == 0 && o.kind != data::TokenizerKind::character) o.limit = rows;
    preprocessing_.tokenizer = data::learn_tokenizer(text_.train.texts, o);
    if (rows > 0 && preprocessing_.tokenizer->size() > rows) {
      fail(ErrorKind::usage, "--vocabulary", "the data has ", preprocessing_.tokenizer->size(),
           " tokens, the embedding of ", c_.model, " has ", rows, " rows");
    }
  }

  void choose_length(const models::Model& spec) {
    int64_t length = c_.max_length;
    if (length == 0) length = spec.net ? spec.input.shape[0] : kUsualLength;
    if (spec.net && !spec.takes({length})) {
      refuse_value("--max-length", cat(length), cat(c_.model, " takes ", spec.input.shape[0], " tokens"));
    }
    preprocessing_.input = {length};
    preprocessing_.keep = c_.truncation_side == "left" ? data::Keep::end : data::Keep::start;
  }

  // Classes, labels or values.
  int64_t outputs_needed() const {
    return static_cast<int64_t>(text_.classes.empty() ? text_.targets.size() : text_.classes.size());
  }

  int64_t classes_wanted() const {
    if (text_.corpus()) return preprocessing_.tokenizer->size();
    return c_.num_classes > 0 ? c_.num_classes : outputs_needed();
  }

  void check(const models::Model& model) const {
    const auto refuse = [&](const auto&... why) {
      fail(ErrorKind::usage, "--model", "model ", model.name, " does not fit dataset ", text_.name, ": ", why...);
    };
    if (text_.corpus() && (model.own.loss || model.own.metric)) {
      refuse("a loss and a metric of a program's own are over samples, of a corpus tokens are counted");
    }
    if (model.own.loss) return;
    const bool targets = text_.train.targets.defined(), values = targets && text_.classes.empty();
    if (models::regresses(model.loss) != values && c_.loss != Config().loss) {
      fail(ErrorKind::usage, "--loss", "got ", c_.loss, ", the targets of ", c_.data,
           values ? " are values: expected mse, huber or mae" : " are classes: expected cross_entropy, focal or bce");
    }
    if (models::regresses(model.loss) && !values)
      refuse("it is a regression model (loss ", models::to_string(model.loss), "), the data has classes");
    const Type result = model.output_type(1);
    const int64_t outputs = result.shape.back();
    if (text_.corpus()) {
      if (result.shape.rank() != 3)
        refuse("it classifies texts, a corpus needs a result (N, T, vocabulary): got ", result);
      if (outputs < preprocessing_.tokenizer->size()) {
        refuse("it predicts ", outputs, " tokens, the vocabulary has ", preprocessing_.tokenizer->size());
      }
      return;
    }
    if (result.shape.rank() != 2)
      refuse("it is a language model, the data has classes: expected a result (N, classes), got ", result);
    if ((model.loss == models::Loss::multilabel) != (targets && !values)) {
      refuse("it predicts several labels per text (loss multilabel), the data has one class each (--task multilabel)");
    }
    if (targets && outputs != outputs_needed()) {
      refuse("it returns ", outputs, values ? " values" : " labels", ", the data has ", outputs_needed());
    }
    if (outputs < static_cast<int64_t>(text_.classes.size())) {
      refuse("it returns ", outputs, " classes, the data has ", text_.classes.size());
    }
  }

  int64_t count(const data::TokenSet& set) const {
    return text_.corpus() ? static_cast<int64_t>(set.tokens.size()) : set.count();
  }

  Config c_;
  data::TextSet text_;
  store::Preprocessing preprocessing_;
  models::Model model_;
  std::shared_ptr<const data::TokenSet> train_, test_;
};

}  // namespace

std::unique_ptr<Task> make_text_task(const Config& config, const data::Source& source, const data::BadSamples& bad,
                                     const Own& own) {
  return std::make_unique<TextTask>(config, source, bad, own);
}

}  // namespace freight::train
