// Fills a matrix with random elements. CTAs take lines in turn.
extern "C" __global__ void __launch_bounds__(gemmd::bench::kThreads)
    gemmd_kernel(const __grid_constant__ gemmd::bench::FillArguments a) {
  using namespace gemmd::bench;
  for (long long line = blockIdx.x; line < a.lines; line += gridDim.x) {
    char* to = static_cast<char*>(a.to) + line * a.pitch;
    for (long long i = threadIdx.x; i < a.width; i += kThreads) {
      const unsigned bits =
          Encode(a.element, RandomValue(a.seed, line * a.width + i));
      if (BytesOf(a.element) == 4) {
        reinterpret_cast<unsigned*>(to)[i] = bits;
      } else if (BytesOf(a.element) == 2) {
        reinterpret_cast<unsigned short*>(to)[i] = bits;
      } else {
        to[i] = bits & (i == a.width - 1 ? a.last_mask : 0xff);
      }
    }
  }
}
