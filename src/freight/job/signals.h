// Signals as flags that loops poll: the first SIGINT or SIGTERM asks to save and stop, a second one ends the process at
// once; SIGUSR1 asks to save and go on. Only the command line installs the handlers; without them all answers are "no".
#pragma once

namespace freight::signals {

void install();
// SIGINT or SIGTERM once one of them came, to this process or (agree) to another of its run, else 0.
int stop_signal();
// The same of this process alone.
int own_signal();
// Another process of the run got this signal, and all stop for it. The own one, which may come yet, is no second one.
void agree(int number);
inline bool stop_requested() { return stop_signal() != 0; }
// 128 + the signal: 130 or 143; 0 when none came.
int exit_code();
// True once for each SIGUSR1 (several before the question count once).
bool take_save_request();
// Forgets everything that came; for tests.
void reset();

}  // namespace freight::signals
