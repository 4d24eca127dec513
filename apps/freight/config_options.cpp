// See config_options.h.
#include "config_options.h"

#include <cstring>

#include "freight/train/config_fields.h"

namespace freight::app {

void declare_config(Options& o, train::Config& c, const std::string& without) {
  const char* group = "";
  for (const train::Field& field : train::config_fields()) {
    if (field.group == without) continue;
    if (std::strcmp(group, field.group) != 0) o.group(group = field.group);
    std::visit(
        [&](auto member) {
          o.add(field.names, &(c.*member), field.help,
                {.key = field.key,
                 .value = field.value,
                 .synonyms = field.limits.synonyms,
                 .aliases = field.aliases,
                 .seconds = field.seconds ? &(c.*field.seconds) : nullptr,
                 .rule = field.rule ? &(c.*field.rule) : nullptr});
        },
        field.member);
  }
  o.shorthand("--bf16", "--precision=bf16");
  o.shorthand("--fp16", "--precision=fp16");
  o.shorthand("--amp", "--precision=fp16");  // torchvision's
}

}  // namespace freight::app
