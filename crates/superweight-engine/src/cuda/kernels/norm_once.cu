// Batch norm in one launch. Rows stay in shared memory between the pass that sums and the pass that
// writes.
//
// All multiprocessors of an H200 together hold 29 MB; the activations of WRN-28-10 at batch 128 are
// 10, 21 and 42 MB. So most of an activation is read from memory once instead of twice. The rest is
// read again while it is still in the cache. One launch replaces three launches and their gaps.
//
// A block (x, y) is one of the slabs that share the rows of statistics set y. There are at most as
// many blocks as multiprocessors, and the launch is cooperative, so blocks can wait for each other.
// Each block sends its sums in messages to the blocks that own the channels, `per` channels each.
// An owner adds the slabs' sums in f64, always in the same order, and sends the result to all
// blocks. Values to which all sets contribute (running statistics, gradients of joint parameters)
// are added by the set that ends last, again in order. Without float atomics the bits are the same
// every time.
//
// A thread has VEC channels and `count` rows, and sums the last row first. The first `kept` rows
// stay in shared memory; the others pass through a ring of cells. Then it writes the rows in the
// opposite order: rows that were not kept were read last, and the ring still holds the last of
// them. No thread reads another thread's cells, so threads do not wait for each other.
//
// Loops are not unrolled: unrolling twice was no faster (docs/decisions/0010).

// Largest number of threads per block, and rows that a thread prefetches, of the main tensors and
// of a third tensor: `THREADS`, `DEPTH`, `AHEAD` in ops/norm_once.rs.
#define THREADS 512
#define DEPTH 8
#define AHEAD 4

extern __shared__ uint4 cells[];

// GPUs before sm_80 copy synchronously. With `there` false it copies zeros; the address is valid in
// any case.
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy_async(uint4* to, const act* from, bool there = true) {
  u32 address = (u32)__cvta_generic_to_shared(to);
  int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all groups but the last `RECENT` have arrived.
template <int RECENT> __device__ __forceinline__ void wait_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(RECENT) : "memory");
}
#else
__device__ __forceinline__ void copy_async(uint4* to, const act* from, bool there = true) {
  *to = there ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
}
__device__ __forceinline__ void close_group() {}
template <int RECENT> __device__ __forceinline__ void wait_but() {}
#endif

// A message is a value and, in the same 8 bytes, the number of its launch. A reader that sees the
// launch number has the value too, so no fence or barrier is needed.
__device__ __forceinline__ void send(u64* message, float number, u32 launch) {
  u64 bits = (u64)launch << 32 | __float_as_uint(number);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(message), "l"(bits) : "memory");
}
__device__ __forceinline__ u64 read_message(const u64* message) {
  u64 bits;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(message) : "memory");
  return bits;
}
__device__ __forceinline__ float receive(const u64* message, u32 launch) {
  u64 bits;
  do bits = read_message(message);
  while ((u32)(bits >> 32) != launch);
  return __uint_as_float((u32)bits);
}

// Memory through which blocks communicate. `turn` is {number of launches so far, blocks of this
// launch that have all their messages}.
struct Meeting { u64 *messages, *results; float* set_sums; u32 *tickets, *turn; };

// Assignment of rows and channels to the blocks of a launch: `Slabs` in ops/norm_once.rs. `each` is
// the distance between a thread's rows.
struct Division { u32 rows, channels, each, count, kept, per; };

// The rows of a thread, in the order of summing. STREAMS tensors are read. Cells have 16 bytes.
template <int STREAMS> struct Share {
  static constexpr u32 RING = DEPTH / STREAMS;
  u32 channels, count, kept, thread, threads, size, ring, launch;
  // Offsets of the set's first row and of the row summed last and written first; distance of rows.
  u64 first, row, step;
  bool whole;            // whether the row summed first exists; all others do
  __device__ Share(const Division& d, const Meeting& meeting) : channels(d.channels), count(d.count), kept(d.kept) {
    threads = blockDim.x * blockDim.y;
    thread = threadIdx.y * blockDim.x + threadIdx.x;
    size = STREAMS * threads;
    ring = thread + kept * size;
    u32 top = blockIdx.x * blockDim.y + threadIdx.y;
    first = (u64)blockIdx.y * d.rows * channels + threadIdx.x * VEC;
    row = first + (u64)top * channels;
    step = (u64)d.each * channels;
    whole = top + (count - 1) * d.each < d.rows;
    launch = __ldcg(meeting.turn) + 1;
  }
  __device__ __forceinline__ u32 cell(u32 i) const {
    return i < kept ? thread + i * size : ring + (i - kept) % RING * size;
  }
  // A missing row is replaced by the first row, or has no gradient, so it adds nothing to the sums.
  __device__ __forceinline__ void copy(u32 cell, const act* x, const act* dy, u64 at, bool there = true) const {
    copy_async(cells + cell, x + (there ? at : first));
    if (STREAMS == 2) copy_async(cells + cell + threads, dy + (there ? at : first), there);
  }
  __device__ __forceinline__ Raw<VEC> held(u32 cell, int stream) const { return Raw<VEC>{cells[cell + stream * threads]}; }
  // Offset after the rows' cells: two sums per channel and row of threads, or cells of a third
  // tensor.
  __device__ __forceinline__ u32 behind() const { return (kept + (count > kept ? RING : 0)) * size; }

  __device__ __forceinline__ void begin(const act* x, const act* dy) const {
    u64 at = row + (u64)(count - 1) * step;
#pragma unroll 1
    for (u32 i = 0; i < RING; i++, at -= step) {
      if (i < count) copy(cell(i), x, dy, at, i > 0 || whole);
      close_group();
    }
  }

  // Runs after `begin`, so that loads in between overlap with those of the first rows.
  template <class F> __device__ __forceinline__ void sum(const act* x, const act* dy, F&& take) const {
    u32 from = thread, to = cell(RING), end = ring + RING * size;
    u64 at = row + ((i64)count - 1 - RING) * (i64)step;
#pragma unroll 1
    for (u32 i = 0; i < count; i++, at -= step) {
      wait_but<RING - 1>();
      take(held(from, 0), STREAMS == 2 ? held(from, 1) : Raw<VEC>{});
      if (i + RING < count) copy(to, x, dy, at);
      close_group();
      from += size;
      to += size;
      if (from == end) from = ring;
      if (to == end) to = ring;
    }
  }

  // `other` is a tensor that only this pass reads.
  template <bool OTHER, class F>
  __device__ __forceinline__ void write(const act* x, const act* dy, const act* other, F&& put) const {
    static_assert(AHEAD <= RING, "a row has arrived when its `other` has");
    u32 from = cell(count - 1), passing = count > kept ? count - kept : 0, there = count - !whole;
    u32 olds = behind() + thread, old = olds;
    u64 at = row;
    if (OTHER)
#pragma unroll 1
      for (u32 m = 0; m < AHEAD; m++) {
        if (m < there) copy_async(cells + olds + m * threads, other + at + m * step);
        close_group();
      }
#pragma unroll 1
    for (u32 m = 0; m < count; m++, at += step) {
      wait_but<(OTHER ? AHEAD : RING) - 1>();
      if (m < there)
        put(at, held(from, 0), STREAMS == 2 ? held(from, 1) : Raw<VEC>{}, OTHER ? Raw<VEC>{cells[old]} : Raw<VEC>{});
      if (OTHER && m + AHEAD < there) copy_async(cells + old, other + at + AHEAD * step);
      if (m + RING < passing) copy(from, x, dy, at + RING * step);
      close_group();
      from = from == ring && m + 1 < passing ? ring + (RING - 1) * size : from - size;
      old = old == olds + (AHEAD - 1) * threads ? olds : old + threads;
    }
  }

  // Sends the two sums of every channel over the rows of the block. Messages are
  // [set][slab][2][channels].
  __device__ __forceinline__ void send_sums(const float* a, const float* b, const Meeting& meeting) const {
    float *space = reinterpret_cast<float*>(cells + behind()), *mine = space + 2 * threadIdx.y * channels + threadIdx.x * VEC;
#pragma unroll
    for (int j = 0; j < VEC; j += 4) {
      *reinterpret_cast<float4*>(mine + j) = make_float4(a[j], a[j + 1], a[j + 2], a[j + 3]);
      *reinterpret_cast<float4*>(mine + channels + j) = make_float4(b[j], b[j + 1], b[j + 2], b[j + 3]);
    }
    __syncthreads();
    u64* messages = meeting.messages + (u64)(blockIdx.y * gridDim.x + blockIdx.x) * 2 * channels;
#pragma unroll 1
    for (u32 i = thread; i < 2 * channels; i += threads) {
      float sum = 0.f;
#pragma unroll 4
      for (u32 t = 0; t < blockDim.y; t++) sum += space[2 * t * channels + i];
      send(messages + i, sum, launch);
    }
  }

  // Calls `decide` for each channel that the block owns, with the two sums over all slabs and the
  // value of `before` for that channel, which is loaded while the messages arrive. A warp adds the
  // sums of a channel; all its threads call `decide`.
  template <class B, class F>
  __device__ __forceinline__ void own(u32 per, const Meeting& meeting, B&& before, F&& decide) const {
    u32 lane = thread % 32, end = min((blockIdx.x + 1) * per, channels);
    const u64* messages = meeting.messages + (u64)blockIdx.y * gridDim.x * 2 * channels;
    if (thread / 32 >= threads / 32) return;
#pragma unroll 1
    for (u32 c = blockIdx.x * per + thread / 32; c < end; c += threads / 32) {
      auto known = before(c);
      double a = 0, b = 0;
#pragma unroll 1
      for (u32 slab = lane; slab < gridDim.x; slab += 64) {
        // Two slabs at once.
        const u64 *one = messages + slab * 2 * channels + c, *two = slab + 32 < gridDim.x ? one + 64 * channels : one;
        u64 got[4];
        bool here;
        do {
          got[0] = read_message(one), got[1] = read_message(one + channels), got[2] = read_message(two), got[3] = read_message(two + channels);
          here = true;
#pragma unroll
          for (int u = 0; u < 4; u++) here &= (u32)(got[u] >> 32) == launch;
        } while (!here);
        a += __uint_as_float((u32)got[0]);
        b += __uint_as_float((u32)got[1]);
        if (two != one) a += __uint_as_float((u32)got[2]), b += __uint_as_float((u32)got[3]);
      }
#pragma unroll 1
      for (u32 offset = 16; offset > 0; offset /= 2) {
        a += __shfl_xor_sync(0xffffffffu, a, offset);
        b += __shfl_xor_sync(0xffffffffu, b, offset);
      }
      decide(c, a, b, known);
    }
  }
  // Results of the owners for all channels: [2][channels].
  __device__ __forceinline__ u64* results(const Meeting& meeting) const {
    return meeting.results + (u64)blockIdx.y * 2 * channels;
  }
  __device__ __forceinline__ float* receive_results(const Meeting& meeting) const {
    float* space = reinterpret_cast<float*>(cells + behind());
    __syncthreads();
#pragma unroll 1
    for (u32 i = thread; i < 2 * channels; i += threads) space[i] = receive(results(meeting) + i, launch);
    __syncthreads();
    // Once all blocks have arrived here, all know the number of this launch.
    u32 blocks = gridDim.x * gridDim.y;
    if (thread == 0 && atomicInc(meeting.turn + 1, blocks - 1) == blocks - 1) meeting.turn[0] = launch;
    return space;
  }
};

// Returns true if this thread is the last of `sets` to arrive; it can then read what the others
// wrote. `ticket` is reset to zero.
__device__ __forceinline__ bool comes_last(u32* ticket, u32 sets) {
  __threadfence();
  bool last = atomicInc(ticket, sets - 1) == sets - 1;
  __threadfence();
  return last;
}

// Computes μ, 1/σ and the running statistics, then y = clamp(γ·(x − μ)/σ + β + residual). x or
// residual may be y; `rule` as in norm.cu. `copy` receives x unless it is null. `per_row` is 1/M,
// `unbiased` M/(M − 1).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    norm_forward_once(const act* x, const act* residual, act* y, act* copy, const float* gamma, const float* beta, float* mean,
                      float* inverse, float epsilon, int rule, float momentum, const u32* control, float* running_mean,
                      float* running_variance, Division d, double per_row, double unbiased, u32 parameter_sets, float low,
                      float high, Meeting meeting) {
  Share<1> share(d, meeting);
  u32 channels = d.channels, column = threadIdx.x * VEC, sets = gridDim.y;
  u32 own = parameter_sets == 1 ? 0 : blockIdx.y * channels, mine = blockIdx.y * channels;
  share.begin(x, nullptr);
  // Sums distances from the first row, which stays precise if the mean is far from zero. A block
  // that overwrites that row (x may be y) has first received results that depend on the messages of
  // all blocks that read it.
  Pack<VEC> k = load<VEC>(x + share.first);
  float s[VEC], q[VEC], scale[VEC], shift[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    s[j] = q[j] = 0.f;
    scale[j] = gamma[own + column + j];
    shift[j] = beta[own + column + j];
  }
  share.sum(x, nullptr, [&](const Raw<VEC>& raw, const Raw<VEC>&) {
    Pack<VEC> v = unpack<VEC>(raw);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float d = v.f[j] - k.f[j];
      s[j] += d;
      q[j] = fmaf(d, d, q[j]);
    }
  });
  share.send_sums(s, q, meeting);
  struct Known { float start, mean, variance; };
  auto before = [&](u32 c) {
    return Known{to_float(x[share.first - column + c]), rule ? running_mean[own + c] : 0.f, rule ? running_variance[own + c] : 0.f};
  };
  share.own(d.per, meeting, before, [&](u32 c, double sum, double squares, const Known& known) {
    double distance = sum * per_row, m2 = squares - sum * distance, variance = m2 > 0 ? m2 * per_row : 0;
    float mu = known.start + (float)distance, r = rsqrtf((float)variance + epsilon);
    if (share.thread % 32) return;
    send(share.results(meeting) + c, mu, share.launch);
    send(share.results(meeting) + channels + c, r, share.launch);
    mean[mine + c] = mu;
    inverse[mine + c] = r;
    if (!rule) return;
    // There are as many sets of running statistics as of parameters. With fewer sets, each takes
    // the mean of its sets' updates.
    u32 sharing = sets / parameter_sets;
    double m = mu, v = variance * unbiased;
    if (sharing > 1) {
      meeting.set_sums[mine + c] = (float)v;
      if (!comes_last(meeting.tickets + c, sets)) return;
      m = v = 0;
#pragma unroll 1
      for (u32 set = 0; set < sets; set++) {
        m += __ldcg(mean + set * channels + c);
        v += __ldcg(meeting.set_sums + set * channels + c);
      }
    }
    float weight = rule == 1 ? momentum : 1.f / max(control[1], 1u);
    double rest = 1.0 - weight, part = weight / sharing;
    running_mean[own + c] = (float)(rest * known.mean + part * m);
    running_variance[own + c] = (float)(rest * known.variance + part * v);
  });
  float* results = share.receive_results(meeting);
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    scale[j] *= results[channels + column + j];
    shift[j] = fmaf(-results[column + j], scale[j], shift[j]);
  }
  if (residual) __syncthreads();
  auto put = [&](u64 at, const Raw<VEC>& raw, const Raw<VEC>&, const Raw<VEC>& old) {
    Pack<VEC> p = unpack<VEC>(raw), o;
    if (residual) o = unpack<VEC>(old);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float z = fmaf(p.f[j], scale[j], shift[j]);
      p.f[j] = clamp(residual ? z + o.f[j] : z, low, high);
    }
    store<VEC>(y + at, p);
    if (copy) *reinterpret_cast<uint4*>(copy + at) = raw.bits;
  };
  if (residual) share.write<true>(x, nullptr, residual, put);
  else share.write<false>(x, nullptr, nullptr, put);
}

// dβ = Σdz, dγ = Σdz·x̂, dx (+)= γ/σ·(dz − Σdz/M − x̂·Σ(dz·x̂)/M). dx may be dy, or null.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    norm_backward_once(const act* x, const act* dy, act* dx, const float* gamma, const float* beta, const float* mean,
                       const float* inverse, float* dscale, float* dshift, int add_parameters, int add, Division d,
                       float per_row, u32 parameter_sets, float low, float high, Meeting meeting) {
  Share<2> share(d, meeting);
  u32 channels = d.channels, column = threadIdx.x * VEC, sets = gridDim.y;
  u32 own = parameter_sets == 1 ? 0 : blockIdx.y * channels, mine = blockIdx.y * channels;
  share.begin(x, dy);
  float mu[VEC], scale[VEC], shift[VEC], s[VEC], q[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    mu[j] = mean[mine + column + j];
    scale[j] = gamma[own + column + j] * inverse[mine + column + j];
    shift[j] = fmaf(-mu[j], scale[j], beta[own + column + j]);
    s[j] = q[j] = 0.f;
  }
  share.sum(x, dy, [&](const Raw<VEC>& raw, const Raw<VEC>& gradient) {
    Pack<VEC> p = unpack<VEC>(raw), g = unpack<VEC>(gradient);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float z = fmaf(p.f[j], scale[j], shift[j]), dz = z > low && z < high ? g.f[j] : 0.f;
      s[j] += dz;
      q[j] = fmaf(dz, p.f[j] - mu[j], q[j]);
    }
  });
  share.send_sums(s, q, meeting);
  struct Known { float inverse, scale, shift; };
  auto before = [&](u32 c) {
    return Known{inverse[mine + c], add_parameters ? dscale[own + c] : 0.f, add_parameters ? dshift[own + c] : 0.f};
  };
  share.own(d.per, meeting, before, [&](u32 c, double sum, double products, const Known& known) {
    float r = known.inverse, ds = (float)sum, dq = (float)products * r;
    if (share.thread % 32) return;
    send(share.results(meeting) + c, ds * per_row, share.launch);
    send(share.results(meeting) + channels + c, dq * r * per_row, share.launch);
    if (sets > parameter_sets) {
      float* sums = meeting.set_sums + 2 * c;
      sums[2 * mine] = ds;
      sums[2 * mine + 1] = dq;
      if (!comes_last(meeting.tickets + c, sets)) return;
      ds = dq = 0.f;
#pragma unroll 1
      for (u32 set = 0; set < sets; set++, sums += 2 * channels) {
        ds += __ldcg(sums);
        dq += __ldcg(sums + 1);
      }
    }
    dshift[own + c] = known.shift + ds;
    dscale[own + c] = known.scale + dq;
  });
  float* results = share.receive_results(meeting);
  if (!dx) return;
  // Coefficient of x in dx, and the constant term.
  float slope[VEC], offset[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    slope[j] = -scale[j] * results[channels + column + j];
    offset[j] = -scale[j] * results[column + j] - slope[j] * mu[j];
  }
  if (add) __syncthreads();
  auto put = [&](u64 at, const Raw<VEC>& raw, const Raw<VEC>& gradient, const Raw<VEC>& old) {
    Pack<VEC> p = unpack<VEC>(raw), g = unpack<VEC>(gradient), o;
    if (add) o = unpack<VEC>(old);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float z = fmaf(p.f[j], scale[j], shift[j]), dz = z > low && z < high ? g.f[j] : 0.f;
      float r = fmaf(scale[j], dz, fmaf(slope[j], p.f[j], offset[j]));
      p.f[j] = add ? o.f[j] + r : r;
    }
    store<VEC>(dx + at, p);
  };
  if (add) share.write<true>(x, dy, dx, put);
  else share.write<false>(x, dy, nullptr, put);
}
