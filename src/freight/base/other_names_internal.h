// catalog/other_names.txt, which is compiled in; internal to base/.
#pragma once

namespace freight {

const char* other_names_file();

}  // namespace freight
