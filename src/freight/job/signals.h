// Signals as flags that loops poll. The first SIGINT or SIGTERM asks to save and stop, a second one ends the process at
// once (of two SIGTERM within a second the later one does not count); SIGUSR1 asks to save and continue. Only the
// command line installs the handlers, and programs that run the trainer hold SIGTERM; without that no flag is set.
#pragma once

namespace freight::signals {

void install();
// For a program with handlers of its own: from here on SIGTERM sets the flag.
void hold_termination();
// Puts back the handler from before, clears all flags, and returns what stop_signal() was: the program then sends
// itself that signal.
int release_termination();
// SIGINT or SIGTERM once this process has received it, or another process of its run has (agree); else 0.
int stop_signal();
// The same, for this process only.
int own_signal();
// Records that another process of the run got this signal, for which all stop. If this process gets it later, it does
// not count as the second signal.
void agree(int number);
inline bool stop_requested() { return stop_signal() != 0; }
// 128 + the signal: 130 or 143; 0 if there was none.
int exit_code();
// True once after a SIGUSR1; several signals since the last call count as one.
bool take_save_request();
// Clears all flags; for tests.
void reset();

}  // namespace freight::signals
