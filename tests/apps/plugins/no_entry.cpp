// A shared library that is no plugin.
extern "C" int forty_two() { return 42; }
