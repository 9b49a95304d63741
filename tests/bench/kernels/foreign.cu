// Counts bytes that somebody wrote where nobody should. CTAs take lines in
// turn.
extern "C" __global__ void __launch_bounds__(gemmd::bench::kThreads)
    gemmd_kernel(const __grid_constant__ gemmd::bench::ForeignArguments a) {
  using namespace gemmd::bench;
  unsigned long long count = 0;
  for (long long line = blockIdx.x; line < a.lines; line += gridDim.x) {
    const unsigned char* from = a.from + line * a.pitch;
    for (long long i = a.width + threadIdx.x; i < a.pitch; i += kThreads) {
      if (from[i] != a.expected) ++count;
    }
  }
  if (count != 0) atomicAdd(a.count, count);
}
