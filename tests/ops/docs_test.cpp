// The examples of docs/graph-text.md and docs/extend/op.md are what the program does: graphs parse, print back and
// run; the quoted lines of the worked op stand in the files that the page names.
#include <fstream>
#include <sstream>

#include "freight/base/strings.h"
#include "tests/support/folders.h"
#include "tests/support/graphs.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

std::string file(const std::string& path) {
  std::ifstream in(source_dir() + "/" + path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

struct Block {
  std::string before, text;  // the prose since the last block, the block
};
std::vector<Block> blocks(const std::string& page, const std::string& language) {
  std::vector<Block> found;
  const std::string open = "```" + language + "\n";
  size_t last = 0;
  for (size_t at = page.find(open); at != std::string::npos; at = page.find(open, last)) {
    const size_t start = at + open.size(), end = page.find("```", start);
    found.push_back({page.substr(last, at - last), page.substr(start, end - start)});
    last = end + 3;
  }
  return found;
}

TEST(Docs, GraphsOfTheTextFormParsePrintAndRun) {
  const std::vector<Block> examples = blocks(file("docs/graph-text.md"), "graph");
  EXPECT_GE(examples.size(), 4u);
  for (const Block& example : examples) {
    const Graph g = parse(example.text, "docs/graph-text.md");
    verify(g);
    std::string plain = example.text;  // comments are not kept
    if (const size_t c = plain.find("  # "); c != std::string::npos) plain.erase(c, plain.find('\n', c) - c);
    EXPECT_EQ(print(g), plain);
    std::vector<Array> inputs, states;
    for (const Type& t : leaf_types(g, Op::input)) inputs.push_back(random_array({t, Fill::positive}, 1));
    for (const Type& t : leaf_types(g, Op::state)) states.push_back(random_array({t, Fill::positive}, 2));
    std::vector<Array> states_of_oracle = states;
    const std::vector<Array> expected = interpret(g, inputs, states_of_oracle);
    for (const std::string& device : computing_backends()) {
      std::vector<Array> own;
      for (const Array& s : states) own.push_back(s.clone());
      const std::vector<Array> got = run_planned(device, g, inputs, own);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], expected[i], 1e-5)) << device;
    }
  }
}

TEST(Docs, LinesOfTheWorkedOpStandInTheirFiles) {
  const std::vector<Block> lines =
      blocks(file("docs/extend/op.md"), "cpp fragment: stands in the file that is named above");
  EXPECT_EQ(lines.size(), 4u);
  std::vector<std::string> paths;  // the last ones named
  for (const Block& line : lines) {
    const std::string& prose = line.before;
    std::vector<std::string> named;
    for (size_t at = prose.find('`'); at != std::string::npos; at = prose.find('`', at + 1)) {
      const size_t end = prose.find('`', at + 1);
      const std::string word = prose.substr(at + 1, end - at - 1);
      if (word.find('/') != std::string::npos && word.find('.') != std::string::npos &&
          word.find(' ') == std::string::npos) {
        named.push_back(word);
      }
      at = end;
    }
    if (!named.empty()) paths = named;
    bool found = false;
    const std::string text = line.text.substr(0, line.text.size() - 1);  // a comment may follow on the line
    for (const std::string& path : paths) found = found || file(path).find(text) != std::string::npos;
    EXPECT_TRUE(found) << line.text << "is not in " << join(paths, ", ");
  }
}

}  // namespace
}  // namespace freight::test
