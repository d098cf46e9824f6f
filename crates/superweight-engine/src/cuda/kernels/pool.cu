// Pooling. A forward thread computes one output. A backward thread computes one input: it visits
// every window that contains the input, in order, so no two threads add to one element.

struct Window { u32 h, w, oh, ow, kh, kw, sh, sw, ph, pw; };

// First and one past the last row (or column) of a window, without padding.
__device__ __forceinline__ void window(u32 at, u32 stride, u32 kernel, u32 padding, u32 size, u32& first, u32& end) {
  u32 start = at * stride;
  first = start > padding ? start - padding : 0;
  end = start + kernel > padding ? start + kernel - padding : 0;
  end = end < size ? end : size;
}

// First and one past the last window that contains an input.
__device__ __forceinline__ void windows_of(u32 at, u32 stride, u32 kernel, u32 padding, u32 count, u32& first,
                                           u32& end) {
  u32 p = at + padding;
  first = p + 1 > kernel ? (p - kernel) / stride + 1 : 0;
  end = p / stride + 1;
  end = end < count ? end : count;
}

extern "C" __global__ void pool_forward(const act* x, act* y, u32* positions, u64 n, u32 channels, u32 h, u32 w, u32 oh,
                                        u32 ow, u32 kh, u32 kw, u32 sh, u32 sw, u32 ph, u32 pw, int max, float share) {
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u32 c = i % channels;
    u64 at = i / channels;
    u32 ox = at % ow, oy = at / ow % oh;
    const act* image = x + at / ow / oh * h * w * channels + c;
    u32 a0, a1, b0, b1;
    window(oy, sh, kh, ph, h, a0, a1);
    window(ox, sw, kw, pw, w, b0, b1);
    float value = max ? -HUGE : 0.f;
    u32 position = a0 * w + b0;
    for (u32 a = a0; a < a1; a++)
      for (u32 b = b0; b < b1; b++) {
        float v = to_float(image[(u64)(a * w + b) * channels]);
        if (!max) value += v;
        else if (v > value || v != v) {
          value = v;
          position = a * w + b;
        }
      }
    y[i] = to_act(max ? value : value * share);
    if (positions) positions[i] = position;
  }
}

extern "C" __global__ void pool_backward(const act* dy, const u32* positions, act* dx, u64 n, u32 channels, u32 h,
                                         u32 w, u32 oh, u32 ow, u32 kh, u32 kw, u32 sh, u32 sw, u32 ph, u32 pw,
                                         float share, int add) {
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u32 c = i % channels;
    u64 at = i / channels;
    u32 pixel = at % (h * w), a = pixel / w, b = pixel % w;
    u64 image = at / (h * w) * oh * ow;
    u32 y0, y1, x0, x1;
    windows_of(a, sh, kh, ph, oh, y0, y1);
    windows_of(b, sw, kw, pw, ow, x0, x1);
    float sum = add ? to_float(dx[i]) : 0.f;
    for (u32 oy = y0; oy < y1; oy++)
      for (u32 ox = x0; ox < x1; ox++) {
        u64 o = (image + oy * ow + ox) * channels + c;
        if (!positions) sum += to_float(dy[o]) * share;
        else if (positions[o] == pixel) sum += to_float(dy[o]);
      }
    dx[i] = to_act(sum);
  }
}

template <int V> __device__ void global_forward(const act* x, act* y, u64 images, u32 pixels, u32 channels) {
  u32 packs = channels / V;
  float share = 1.f / pixels;
  for (u64 i = thread_index(); i < images * packs; i += thread_count()) {
    u64 image = i / packs;
    u32 c = (i % packs) * V;
    Pack<V> sum;
#pragma unroll
    for (int j = 0; j < V; j++) sum.f[j] = 0.f;
    const act* p = x + image * pixels * channels + c;
#pragma unroll 8
    for (u32 k = 0; k < pixels; k++) {
      Pack<V> v = load<V>(p + (u64)k * channels);
#pragma unroll
      for (int j = 0; j < V; j++) sum.f[j] += v.f[j];
    }
#pragma unroll
    for (int j = 0; j < V; j++) sum.f[j] *= share;
    store<V>(y + image * channels + c, sum);
  }
}
extern "C" __global__ void global_forward_v(const act* x, act* y, u64 images, u32 pixels, u32 channels) {
  global_forward<VEC>(x, y, images, pixels, channels);
}
extern "C" __global__ void global_forward_1(const act* x, act* y, u64 images, u32 pixels, u32 channels) {
  global_forward<1>(x, y, images, pixels, channels);
}

template <int V> __device__ void global_backward(const act* dy, act* dx, u64 images, u32 pixels, u32 channels, int add) {
  u32 packs = channels / V;
  float share = 1.f / pixels;
  for (u64 i = thread_index(); i < images * pixels * packs; i += thread_count()) {
    u64 row = i / packs;
    u32 c = (i % packs) * V;
    Pack<V> v = load<V>(dy + row / pixels * channels + c), o;
    if (add) o = load<V>(dx + row * channels + c);
#pragma unroll
    for (int j = 0; j < V; j++) v.f[j] = add ? o.f[j] + v.f[j] * share : v.f[j] * share;
    store<V>(dx + row * channels + c, v);
  }
}
extern "C" __global__ void global_backward_v(const act* dy, act* dx, u64 images, u32 pixels, u32 channels, int add) {
  global_backward<VEC>(dy, dx, images, pixels, channels, add);
}
extern "C" __global__ void global_backward_1(const act* dy, act* dx, u64 images, u32 pixels, u32 channels, int add) {
  global_backward<1>(dy, dx, images, pixels, channels, add);
}
