// Standard input, output and error, where they are not what a program expects:
// closed when it starts, full or gone when it ends.
#ifndef GEMMD_CLIENTS_CLI_STANDARD_STREAMS_H_
#define GEMMD_CLIENTS_CLI_STANDARD_STREAMS_H_

#include "absl/status/status.h"

namespace gemmd::cli {

// Makes descriptors 0 to 2 taken where they are closed, by something that can
// neither be read nor written: else the next file or socket would get one of
// their numbers, and what is printed would be written into it. Programs that
// call it, without other threads, have it run before the initialisers of
// libraries, too: gRPC's open some.
void HoldStandardStreams();

// Writes out what has been printed. An error when not all of it arrived: what
// nobody can read was not done.
absl::Status FlushStandardOutput();

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_STANDARD_STREAMS_H_
