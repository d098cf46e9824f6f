// One optimizer step over all parameters: a block per stretch of at most 4096 numbers of one group and one kind.

struct Stretch { u64 first; u32 count, group; float decay; u32 kind; };

// `kind`: 1 where the gradient is an `act` and the parameter has a copy that convolutions read. `rule`: 0 plain, 1 momentum,
// 2 Nesterov.
extern "C" __global__ void sgd(const Stretch* stretches, const float* rates, float* parameters, act* copies,
                               const float* gradients, const act* narrow, float* momentum, float mu, int rule) {
  Stretch s = stretches[blockIdx.x];
  float rate = rates[s.group];
  for (u32 i = threadIdx.x; i < s.count; i += blockDim.x) {
    u64 at = s.first + i;
    float p = parameters[at];
    float g = fmaf(s.decay, p, s.kind ? to_float(narrow[at]) : gradients[at]);
    if (rule) {
      float b = fmaf(mu, momentum[at], g);
      momentum[at] = b;
      g = rule == 2 ? fmaf(mu, b, g) : b;
    }
    p = fmaf(-rate, g, p);
    parameters[at] = p;
    if (s.kind) copies[at] = to_act(p);
  }
}
