// The recipe files that are compiled in; internal to the room.
#pragma once
#include <vector>

namespace freight::train {

struct RecipeFile {
  const char* path;  // recipes/mnist.json
  const char* text;
};
// Made from recipes/*.json by CMake, in the order of their names.
const std::vector<RecipeFile>& recipe_files();

}  // namespace freight::train
