// The weights that a run is fine-tuned from: a file of a network whose layers are those of the model up to its head,
// which may have another number of outputs or be another layer. Formats of files: store/bundle.h.
#pragma once
#include <string>
#include <vector>

#include "freight/data/tokenizer.h"
#include "freight/models/models.h"

namespace freight::finetune {

// Names of tensors; those of the second have the values of a new network, those of the third have no place in it.
struct LoadReport {
  std::vector<std::string> loaded, initialized, ignored;
  // "FILE: 120 tensors loaded; initialized: fc.weight [3,512] (file [1000,512]), fc.bias; ignored: ..."
  std::string line;
};

// An own network may leave out what comes behind the loaded layers; a built-in one must have all of a file's tensors.
enum class FileMayHaveMore { no, yes };

// Loads the file into the model. The layers behind the last one that fits keep the values of a new network, and so do
// auxiliary heads of other sizes. Throws Error(checkpoint) for a file with other layers before these, which lists the
// tensors and names the built-in network that the file fits; for a head with the name of the file's and inputs of
// another size; and as store::load_weights does.
LoadReport load_pretrained(models::Model& model, const std::string& path, const data::Tokenizer* tokens,
                           FileMayHaveMore more);

}  // namespace freight::finetune
