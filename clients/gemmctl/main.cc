// gemmctl: the command line of gemmd.
#include <google/protobuf/stubs/logging.h>

#include "clients/gemmctl/command.h"

int main(int argc, char** argv) {
  using namespace gemmd;
  // Of a text that is not UTF-8 it prints lines; the daemon refuses it anyway.
  google::protobuf::SetLogHandler(nullptr);
  cli::Program program("gemmctl", "talks to a gemmd daemon");
  program.Alias("target", "server");
  gemmctl::AddMatmul(program);
  gemmctl::AddMatmulGrouped(program);
  gemmctl::AddCompress(program);
  gemmctl::AddQuantize(program);
  gemmctl::AddTensor(program);
  gemmctl::AddModel(program);
  gemmctl::AddKernel(program);
  gemmctl::AddServer(program);
  gemmctl::AddCapabilities(program);
  gemmctl::AddLoad(program);
  program.Details(
      "`gemmctl COMMAND --help` says more. Exit codes: 0 done; 1 the daemon "
      "refused\nor failed (its gRPC code is printed), does not answer, or a "
      "file is in trouble;\n2 wrong command line.");
  return program.Main(argc, argv);
}
