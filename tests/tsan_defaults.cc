// What the thread sanitizer must know of the libraries that are not
// instrumented (gRPC, abseil, OpenBLAS): their synchronisation is invisible to
// it. Does nothing in other builds.
extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1";
}

extern "C" const char* __tsan_default_suppressions() {
  // gRPC's own callables: the linker lets it use our instrumented copy of
  // these inline functions.
  // Likewise its callback API, which only gRPC's own health service uses, in
  // tests of clients: both accesses of every report are gRPC's own, to memory
  // that gRPC allocated, on threads that meet in its queues.
  return "race:internal_any_invocable\n"
         "race:grpc::internal::CallbackUnaryHandler\n"
         "race:grpc::internal::CallbackBidiHandler\n";
}
