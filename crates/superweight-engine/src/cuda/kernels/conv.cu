// Direct convolution in f32: grouped and depthwise layers, and convolutions without a cuDNN plan.
// Activations are NHWC, weights OHWI. Neighbouring threads have neighbouring channels, so depthwise
// layers read memory in order.

struct Geometry {
  u32 n, h, w, c, k, oh, ow, kh, kw, sh, sw, ph, pw, groups;
};

// y (+)= conv(x, w). One thread per output.
extern "C" __global__ void conv_forward(const act* x, const act* weight, act* y, Geometry g, int add) {
  u32 inner = g.c / g.groups, outer = g.k / g.groups;
  u64 count = (u64)g.n * g.oh * g.ow * g.k;
  for (u64 i = thread_index(); i < count; i += thread_count()) {
    u32 k = i % g.k;
    u64 p = i / g.k;
    u32 ox = p % g.ow, oy = p / g.ow % g.oh;
    const act* image = x + p / g.ow / g.oh * g.h * g.w * g.c + k / outer * inner;
    const act* filter = weight + (u64)k * g.kh * g.kw * inner;
    float sum = 0.f;
    for (u32 a = 0; a < g.kh; a++) {
      u32 row = oy * g.sh + a - g.ph;
      if (row >= g.h) continue;
      for (u32 b = 0; b < g.kw; b++) {
        u32 column = ox * g.sw + b - g.pw;
        if (column >= g.w) continue;
        const act* from = image + (u64)(row * g.w + column) * g.c;
        const act* f = filter + (a * g.kw + b) * inner;
        for (u32 c = 0; c < inner; c++) sum = fmaf(to_float(from[c]), to_float(f[c]), sum);
      }
    }
    y[i] = to_act(add ? to_float(y[i]) + sum : sum);
  }
}

// dx (+)= convᵀ(dy, w). One thread per input, which sums over all outputs that the input
// contributes to.
extern "C" __global__ void conv_backward_data(const act* dy, const act* weight, act* dx, Geometry g, int add) {
  u32 inner = g.c / g.groups, outer = g.k / g.groups;
  u64 count = (u64)g.n * g.h * g.w * g.c;
  for (u64 i = thread_index(); i < count; i += thread_count()) {
    u32 c = i % g.c;
    u64 p = i / g.c;
    u32 column = p % g.w, row = p / g.w % g.h, group = c / inner;
    const act* image = dy + p / g.w / g.h * g.oh * g.ow * g.k + group * outer;
    const act* filter = weight + (u64)group * outer * g.kh * g.kw * inner + c % inner;
    float sum = 0.f;
    for (u32 a = 0; a < g.kh; a++) {
      u32 y = row + g.ph - a;
      if (y % g.sh || y / g.sh >= g.oh || row + g.ph < a) continue;
      for (u32 b = 0; b < g.kw; b++) {
        u32 x = column + g.pw - b;
        if (x % g.sw || x / g.sw >= g.ow || column + g.pw < b) continue;
        const act* from = image + (u64)(y / g.sh * g.ow + x / g.sw) * g.k;
        const act* f = filter + (a * g.kw + b) * inner;
        for (u32 k = 0; k < outer; k++)
          sum = fmaf(to_float(from[k]), to_float(f[(u64)k * g.kh * g.kw * inner]), sum);
      }
    }
    dx[i] = to_act(add ? to_float(dx[i]) + sum : sum);
  }
}

// partials[split][weight] = x ⋆ dy over the split's outputs. Block (32, 8): 32 adjacent weights of
// one kernel position (input channels of one output channel, or output channels of a depthwise
// layer) by 8 parts of the outputs. Grid (tiles of 32, kernel positions, splits).
extern "C" __global__ void conv_backward_weight(const act* x, const act* dy, float* partials, Geometry g) {
  __shared__ float part[8][33];
  u32 inner = g.c / g.groups, outer = g.k / g.groups;
  u32 a = blockIdx.y / g.kw, b = blockIdx.y % g.kw, k, ic, c;
  bool valid;
  if (inner == 1) {
    k = blockIdx.x * 32 + threadIdx.x;
    valid = k < g.k;
    ic = 0;
    c = valid ? k / outer : 0;
  } else {
    u32 tiles = (inner + 31) / 32;
    k = blockIdx.x / tiles;
    ic = blockIdx.x % tiles * 32 + threadIdx.x;
    valid = ic < inner;
    c = k / outer * inner + ic;
  }
  u32 outputs = g.n * g.oh * g.ow;
  u32 per_split = (outputs + gridDim.z - 1) / gridDim.z;
  u32 first = blockIdx.z * per_split, end = first + per_split < outputs ? first + per_split : outputs;
  float sum = 0.f;
  if (valid)
    for (u32 o = first + threadIdx.y; o < end; o += 8) {
      u32 ox = o % g.ow, oy = o / g.ow % g.oh, n = o / g.ow / g.oh;
      u32 row = oy * g.sh + a - g.ph, column = ox * g.sw + b - g.pw;
      if (row >= g.h || column >= g.w) continue;
      sum = fmaf(to_float(x[((u64)(n * g.h + row) * g.w + column) * g.c + c]), to_float(dy[(u64)o * g.k + k]), sum);
    }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && valid) {
    for (int i = 1; i < 8; i++) sum += part[i][threadIdx.x];
    u64 at = ((u64)k * g.kh * g.kw + blockIdx.y) * inner + ic;
    partials[(u64)blockIdx.z * g.k * g.kh * g.kw * inner + at] = sum;
  }
}

// dw (+)= sum of the splits, in order.
extern "C" __global__ void add_splits(const float* partials, u32 splits, act* to, u64 n, int add) {
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    double sum = 0;
    for (u32 s = 0; s < splits; s++) sum += partials[s * n + i];
    to[i] = to_act(add ? to_float(to[i]) + (float)sum : (float)sum);
  }
}
