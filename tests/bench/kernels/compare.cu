// Compares two matrices element by element. CTAs take lines in turn.
namespace gemmd::bench {

float Load(Element element, const char* line, long long i) {
  switch (BytesOf(element)) {
    case 4:
      return Decode(element, reinterpret_cast<const unsigned*>(line)[i]);
    case 2:
      return Decode(element, reinterpret_cast<const unsigned short*>(line)[i]);
    default:
      return Decode(element, reinterpret_cast<const unsigned char*>(line)[i]);
  }
}

}  // namespace gemmd::bench

extern "C" __global__ void __launch_bounds__(gemmd::bench::kThreads)
    gemmd_kernel(const __grid_constant__ gemmd::bench::CompareArguments a) {
  using namespace gemmd::bench;
  const float infinity = __builtin_bit_cast(float, 0x7f800000u);
  unsigned long long mismatches = 0;
  float largest = 0.0f;
  for (long long line = blockIdx.x; line < a.lines; line += gridDim.x) {
    const char* x_line = static_cast<const char*>(a.x) + line * a.x_pitch;
    const char* y_line = static_cast<const char*>(a.y) + line * a.y_pitch;
    for (long long i = threadIdx.x; i < a.width; i += kThreads) {
      const float x = Load(a.element, x_line, i);
      const float y = Load(a.element, y_line, i);
      const float difference = x > y ? x - y : y - x;
      const float x_size = x < 0 ? -x : x;
      const float y_size = y < 0 ? -y : y;
      const float size = x_size > y_size ? x_size : y_size;
      // Written so that a NaN on either side is a mismatch.
      if (!(difference <= a.absolute + a.relative * size)) ++mismatches;
      if (!(difference <= infinity)) {
        largest = infinity;
      } else if (difference > largest) {
        largest = difference;
      }
    }
  }
  if (mismatches != 0) atomicAdd(a.mismatches, mismatches);
  // Non-negative floats are ordered as their bits are.
  if (largest > 0.0f) {
    atomicMax(a.largest, __builtin_bit_cast(unsigned, largest));
  }
}
