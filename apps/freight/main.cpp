// The command `freight`: the table of commands, and how an error ends the program. To add a command, write a file
// NAME.cpp here, its declaration in command.h, a row below, and a test in tests/apps.
#include <fcntl.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "command.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/version.h"
#include "freight/job/signals.h"
#include "freight/tables/learners.h"

namespace freight::app {
namespace {

int run(const Args& args) {
  if (!args.empty() && (args[0] == "--version" || args[0] == "-V")) {
    std::printf("freight %s\n", version());
    return 0;
  }
  return dispatch({"freight",
                   "Freight trains, saves and deploys deep-learning models.",
                   {
                       {"train", "train a model on a dataset and save it", train_command},
                       {"eval", "loss and accuracy of a saved model on a dataset", eval_command},
                       {"predict", "predictions of a saved model for images, texts or tables", predict_command},
                       {"serve", "serve predictions over HTTP, with a page to try them", serve_command},
                       {"generate", "generate text with a saved language model", generate_command},
                       {"export", "export a saved model as an ONNX file", export_command},
                       {"verify", "check that a saved model gives the same predictions everywhere", verify_command},
                       {"report", "one HTML page about one or several runs", report_command},
                       {"runs", "the runs in a directory: status, best metric, settings, hours", runs_command},
                       {"plan", "memory, time and cost of a run before it starts, here and elsewhere", plan_command},
                       {"explain", "why a device speeds up a network or not, layer by layer", explain_command},
                       {"advise", "recommend hardware to train on, within a deadline and a budget", advise_command},
                       {"calibrate", "measure this machine once, for the time estimates of plan", calibrate_command},
                       {"launch", "start a program as the ranks of a job on this host", launch_command},
                       {"profile", "the plan of a step, kernel by kernel, with times", profile_command},
                       {"bench", "time whole steps, and compare devices", bench_command},
                       {"linalg", "solve systems and factorize matrices in npy files", linalg_command},
                       {"run", "execute a graph in text form on npy tensors", run_command},
                       {"ops", "the functions on tensors and the ops of graphs, with their arguments", ops_command},
                       {"models", "built-in models, and the layers of any model", models_command},
                       {"data", "datasets: list, describe, verify, download", data_command},
                       {"devices", "the devices of this machine, and why others are missing", devices_command},
                       {"env", "the environment variables that Freight reads, and their values", env_command},
                       {"completion", "a script that completes commands and flags in a shell", completion_command},
                   }},
                  args);
}

// An error after a stop signal is a consequence of it: the signal's exit code takes precedence.
int report(const char* text, ErrorKind kind) {
  std::fflush(stdout);
  std::fprintf(stderr, "freight: error: %s\n", printable(text, "\n\t").c_str());
  return signals::stop_requested() ? signals::exit_code() : static_cast<int>(kind);
}

int guarded(const Args& args) {
  try {
    env::check();
    tables::register_learners();
    const int code = run(args);
    // Results that could not be written are a failure, even though the work was done.
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      return report("cannot write to standard output", ErrorKind::runtime);
    }
    return code;
  } catch (const Error& e) {
    return report(e.what(), e.kind());
  } catch (const std::bad_alloc&) {
    return report("out of memory", ErrorKind::capacity);
  } catch (const std::exception& e) {
    return report(e.what(), ErrorKind::runtime);
  }
}

// If a standard stream is closed, the next file or pipe that is opened gets its number: output would go into a
// checkpoint, or a job would wait for its own pipe. This opens a replacement that can neither be read nor written.
void fill_closed_streams() {
  for (const int stream : {0, 1, 2}) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDONLY);
  }
}

}  // namespace
}  // namespace freight::app

int main(int argc, char** argv) {
  freight::app::fill_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the size limit becomes an error of write(), with a message
  return freight::app::guarded(freight::app::Args(argv + 1, argv + argc));
}
