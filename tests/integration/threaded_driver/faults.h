// What tests ask of the driver while it runs: files in the folder that
// $GEMMD_TEST_DRIVER_FAULTS names, empty or absent ones for none.
#ifndef GEMMD_TESTS_INTEGRATION_THREADED_DRIVER_FAULTS_H_
#define GEMMD_TESTS_INTEGRATION_THREADED_DRIVER_FAULTS_H_

#include <cuda.h>

#include <string>

namespace gemmd::threaded_driver {

// What the function returns in place of doing anything: the number in the file
// of its name; success without one. What concerns the device that is lost
// fails whatever it is: the number in the file "lost" is the device's.
CUresult FaultOf(const std::string& function, int device);

// Whether kernels of the device do not end: its number is in the file "hangs".
bool Hangs(int device);

// The device of the calling thread's context.
int CurrentDevice();

// Ends the daemon, because it has broken a rule of the driver's.
[[noreturn]] void Misused(const std::string& what);

}  // namespace gemmd::threaded_driver

// Begins a function that may fail on the device.
#define RETURN_IF_FAULT(function, device)                            \
  if (const CUresult fault = FaultOf(#function, device); fault != 0) \
  return fault

#endif  // GEMMD_TESTS_INTEGRATION_THREADED_DRIVER_FAULTS_H_
