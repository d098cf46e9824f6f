// Elementwise kernels over whole buffers. A thread takes 16 bytes at a time; the last few elements
// are processed one by one.

template <typename F> __device__ __forceinline__ void each_vector(u64 n, F f) {
  u64 vectors = n / VEC, rest = vectors * VEC;
  for (u64 i = thread_index(); i < vectors; i += thread_count()) f.template run<VEC>(i * VEC);
  for (u64 i = rest + thread_index(); i < n; i += thread_count()) f.template run<1>(i);
}

struct Sum {
  const act *lhs, *rhs;
  act* y;
  float low, high;
  template <int V> __device__ void run(u64 i) const {
    Pack<V> a = load<V>(lhs + i), b = load<V>(rhs + i);
#pragma unroll
    for (int j = 0; j < V; j++) a.f[j] = clamp(a.f[j] + b.f[j], low, high);
    store<V>(y + i, a);
  }
};

// y = clamp(lhs + rhs). lhs may be y.
extern "C" __global__ void sum(const act* lhs, const act* rhs, act* y, u64 n, float low, float high) {
  each_vector(n, Sum{lhs, rhs, y, low, high});
}

struct Clamp {
  const act* x;
  act* y;
  float low, high;
  template <int V> __device__ void run(u64 i) const {
    Pack<V> a = load<V>(x + i);
#pragma unroll
    for (int j = 0; j < V; j++) a.f[j] = clamp(a.f[j], low, high);
    store<V>(y + i, a);
  }
};

// y = clamp(x). x may be y.
extern "C" __global__ void activation_forward(const act* x, act* y, u64 n, float low, float high) {
  each_vector(n, Clamp{x, y, low, high});
}

struct Mask {
  const act *y, *dy;
  act* dx;
  float low, high;
  int add;
  template <int V> __device__ void run(u64 i) const {
    Pack<V> v = load<V>(y + i), d = load<V>(dy + i), old;
    if (add) old = load<V>(dx + i);
#pragma unroll
    for (int j = 0; j < V; j++) {
      float passed = v.f[j] > low && v.f[j] < high ? d.f[j] : 0.f;
      d.f[j] = add ? old.f[j] + passed : passed;
    }
    store<V>(dx + i, d);
  }
};

// dx (+)= dy where y is between the bounds. dx may be dy.
extern "C" __global__ void activation_backward(const act* y, const act* dy, act* dx, u64 n, float low, float high,
                                               int add) {
  each_vector(n, Mask{y, dy, dx, low, high, add});
}

struct Scaled {
  const act* x;
  act* dx;
  float weight;
  int add;
  template <int V> __device__ void run(u64 i) const {
    Pack<V> v = load<V>(x + i), old;
    if (add) old = load<V>(dx + i);
#pragma unroll
    for (int j = 0; j < V; j++) v.f[j] = add ? old.f[j] + weight * v.f[j] : weight * v.f[j];
    store<V>(dx + i, v);
  }
};

// dx (+)= weight·x.
extern "C" __global__ void scaled(const act* x, act* dx, u64 n, float weight, int add) {
  each_vector(n, Scaled{x, dx, weight, add});
}

// Copies between columns start..start+width of the wide side [rows, of] and the narrow side [rows,
// width].
template <int V>
__device__ void columns(const act* from, act* to, u64 rows, u32 start, u32 width, u32 of, int widen, int add) {
  u32 packs = width / V;
  for (u64 i = thread_index(); i < rows * packs; i += thread_count()) {
    u64 row = i / packs, c = (i % packs) * V;
    u64 narrow = row * width + c, wide = row * of + start + c;
    Pack<V> v = load<V>(from + (widen ? narrow : wide));
    act* p = to + (widen ? wide : narrow);
    if (add) {
      Pack<V> old = load<V>(p);
#pragma unroll
      for (int j = 0; j < V; j++) v.f[j] += old.f[j];
    }
    store<V>(p, v);
  }
}
extern "C" __global__ void columns_v(const act* from, act* to, u64 rows, u32 start, u32 width, u32 of, int widen,
                                     int add) {
  columns<VEC>(from, to, rows, start, width, of, widen, add);
}
extern "C" __global__ void columns_1(const act* from, act* to, u64 rows, u32 start, u32 width, u32 of, int widen,
                                     int add) {
  columns<1>(from, to, rows, start, width, of, widen, add);
}

// y += bias for each row.
extern "C" __global__ void bias_forward(const float* bias, act* y, u64 n, u32 channels) {
  for (u64 i = thread_index(); i < n; i += thread_count()) y[i] = to_act(to_float(y[i]) + bias[i % channels]);
}

// y = clamp(y + bias) for each pixel, the rest of a folded batch norm. The bias has the precision
// of weights.
template <int V>
__device__ void finish(const act* bias, act* y, u64 n, u32 channels, float low, float high) {
  for (u64 i = thread_index() * V; i < n; i += thread_count() * V) {
    Pack<V> v = load<V>(y + i), b = load<V>(bias + i % channels);
#pragma unroll
    for (int j = 0; j < V; j++) v.f[j] = clamp(v.f[j] + b.f[j], low, high);
    store<V>(y + i, v);
  }
}
extern "C" __global__ void finish_v(const act* bias, act* y, u64 n, u32 channels, float low, float high) {
  finish<VEC>(bias, y, n, channels, low, high);
}
extern "C" __global__ void finish_1(const act* bias, act* y, u64 n, u32 channels, float low, float high) {
  finish<1>(bias, y, n, channels, low, high);
}

// dbias (+)= sum of the rows of dy. A block is (32 channels, 8 parts of the rows).
extern "C" __global__ void bias_backward(const act* dy, float* dbias, u32 rows, u32 channels, int add) {
  __shared__ double part[8][33];
  u32 c = blockIdx.x * 32 + threadIdx.x;
  double sum = 0;
  if (c < channels)
    for (u32 r = threadIdx.y; r < rows; r += 8) sum += to_float(dy[(u64)r * channels + c]);
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && c < channels) {
    for (int i = 1; i < 8; i++) sum += part[i][threadIdx.x];
    dbias[c] = add ? dbias[c] + (float)sum : (float)sum;
  }
}

// Converts f32 values to `act`, as for the bf16 copies of parameters.
extern "C" __global__ void narrow(const float* from, act* to, u64 n) {
  for (u64 i = thread_index(); i < n; i += thread_count()) to[i] = to_act(from[i]);
}

// sums += values, converted to float. `kind`: 0 float, 1 act.
extern "C" __global__ void accumulate(const void* values, int kind, float* sums, u64 n) {
  for (u64 i = thread_index(); i < n; i += thread_count())
    sums[i] += kind ? to_float(((const act*)values)[i]) : ((const float*)values)[i];
}
