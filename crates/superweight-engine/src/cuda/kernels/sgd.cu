// One optimizer step over all parameters. A block processes a range of at most 4096 elements of one
// group and one kind.

struct Stretch { u64 first; u32 count, group; float weight_decay; u32 kind; };

// `kind`: 1 if the gradient is an `act` and the parameter has a copy that convolutions read.
// `rule`: 0 plain, 1 momentum, 2 Nesterov. A range that starts at a multiple of 8 (all but those of
// odd ranges) is processed 4 elements at a time.
struct Step {
  float lr, weight_decay, mu;
  int rule;
  __device__ __forceinline__ void take(float& p, float g, float& b) const {
    g = fmaf(weight_decay, p, g);
    if (rule) {
      b = fmaf(mu, b, g);
      g = rule == 2 ? fmaf(mu, b, g) : b;
    }
    p = fmaf(-lr, g, p);
  }
};

extern "C" __global__ void sgd(const Stretch* stretches, const float* lrs, float* parameters, act* copies,
                               const float* gradients, const act* narrow, float* momentum, float mu, int rule) {
  Stretch s = stretches[blockIdx.x];
  Step step{lrs[s.group], s.weight_decay, mu, rule};
  u32 wide = s.first % 8 == 0 ? s.count / 4 * 4 : 0;
  for (u32 i = threadIdx.x * 4; i < wide; i += blockDim.x * 4) {
    u64 at = s.first + i;
    float4 p4 = *reinterpret_cast<float4*>(parameters + at), b4 = make_float4(0, 0, 0, 0);
    float p[4] = {p4.x, p4.y, p4.z, p4.w}, g[4];
    if (rule) b4 = *reinterpret_cast<float4*>(momentum + at);
    float b[4] = {b4.x, b4.y, b4.z, b4.w};
#if BF16
    if (s.kind) {
      uint2 raw = *reinterpret_cast<const uint2*>(narrow + at);
      g[0] = __uint_as_float(raw.x << 16);
      g[1] = __uint_as_float(raw.x & 0xffff0000u);
      g[2] = __uint_as_float(raw.y << 16);
      g[3] = __uint_as_float(raw.y & 0xffff0000u);
    } else
#endif
    {
      float4 g4 = *reinterpret_cast<const float4*>(gradients + at);
      g[0] = g4.x; g[1] = g4.y; g[2] = g4.z; g[3] = g4.w;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) step.take(p[e], g[e], b[e]);
    *reinterpret_cast<float4*>(parameters + at) = make_float4(p[0], p[1], p[2], p[3]);
    if (rule) *reinterpret_cast<float4*>(momentum + at) = make_float4(b[0], b[1], b[2], b[3]);
#if BF16
    if (s.kind) *reinterpret_cast<uint2*>(copies + at) = make_uint2(pack2(p[0], p[1]), pack2(p[2], p[3]));
#endif
  }
  for (u32 i = wide + threadIdx.x; i < s.count; i += blockDim.x) {
    u64 at = s.first + i;
    float p = parameters[at], b = rule ? momentum[at] : 0.f;
    step.take(p, s.kind ? to_float(narrow[at]) : gradients[at], b);
    parameters[at] = p;
    if (rule) momentum[at] = b;
    if (s.kind) copies[at] = to_act(p);
  }
}
