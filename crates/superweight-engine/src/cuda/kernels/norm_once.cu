// Batch norm in one launch: rows stay in shared memory between the pass that sums and the pass that writes.
//
// All multiprocessors of an H200 hold 29 MB between them, the activations of WRN-28-10 at batch 128 are 10, 21 and 42 MB:
// most of an activation is read from memory once instead of twice, and what does not fit is read again while the cache
// still has it. Three launches and their gaps become one.
//
// A block (x, y) is one of the slabs that share the rows of set y of statistics; there are at most as many blocks as
// multiprocessors, and the launch is cooperative, so blocks can wait for each other. Each sends its sums in letters to the
// owners of channels, `per` channels each, who add the slabs' in f64 and always in the same order, and send an answer to all.
// What all sets add to (running statistics, gradients of joint parameters) is added by whichever set ends last, again in
// order. No float atomics: the same bits every time.
//
// A thread has VEC channels and `count` rows, of which it sums the last first. The first `kept` of these stay where they were
// copied to; the others pass through a ring of cells. Then it writes them in the opposite order: what was not kept
// was read last, and the ring still holds the last of it. No thread reads another's cells, so none waits for another.
//
// Loops are not unrolled: twice was no faster (docs/decisions/0010).

// Threads of a block at most, copies of rows that a thread has under way, and of rows of a third tensor: `THREADS`, `DEPTH`,
// `AHEAD` in norm_once.rs.
#define THREADS 512
#define DEPTH 8
#define AHEAD 4

extern __shared__ uint4 cells[];

// Processors before sm_80 copy at once. With `there` false zeros are copied; the address is good all the same.
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy_async(uint4* to, const act* from, bool there = true) {
  u32 address = (u32)__cvta_generic_to_shared(to);
  int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all groups but the last `RECENT` are there.
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

// A letter is a number and, in the same 8 bytes, the number of the launch it belongs to: who sees that has the other, and
// no fence or barrier is needed.
__device__ __forceinline__ void send(u64* letter, float number, u32 launch) {
  u64 bits = (u64)launch << 32 | __float_as_uint(number);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(letter), "l"(bits) : "memory");
}
__device__ __forceinline__ u64 look(const u64* letter) {
  u64 bits;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(letter) : "memory");
  return bits;
}
__device__ __forceinline__ float receive(const u64* letter, u32 launch) {
  u64 bits;
  do bits = look(letter);
  while ((u32)(bits >> 32) != launch);
  return __uint_as_float((u32)bits);
}

// Where blocks leave each other something. `turn` is {launches so far, blocks of this one that have all their letters}.
struct Meeting { u64 *letters, *answers; float* set_sums; u32 *tickets, *turn; };

// How the blocks of a launch are given rows and channels: `Slabs` in norm_once.rs. `each` is how many rows further a
// thread's next one is.
struct Division { u32 rows, channels, each, count, kept, per; };

// The rows of a thread, in the order of summing; STREAMS tensors are read of each. Cells are counted in 16 bytes.
template <int STREAMS> struct Share {
  static constexpr u32 RING = DEPTH / STREAMS;
  u32 channels, count, kept, thread, threads, size, ring, launch;
  u64 first, row, step;  // elements: of the set's first row, of the row that is summed last and written first, between rows
  bool whole;            // whether the row summed first is there; all others are
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
  // A row that is not there is the first one instead, or has no gradient: it adds nothing to sums.
  __device__ __forceinline__ void copy(u32 cell, const act* x, const act* dy, u64 at, bool there = true) const {
    copy_async(cells + cell, x + (there ? at : first));
    if (STREAMS == 2) copy_async(cells + cell + threads, dy + (there ? at : first), there);
  }
  __device__ __forceinline__ Raw<VEC> held(u32 cell, int stream) const { return Raw<VEC>{cells[cell + stream * threads]}; }
  // Behind the cells of rows: two numbers per channel and row of threads, or cells of a third tensor.
  __device__ __forceinline__ u32 behind() const { return (kept + (count > kept ? RING : 0)) * size; }

  __device__ __forceinline__ void begin(const act* x, const act* dy) const {
    u64 at = row + (u64)(count - 1) * step;
#pragma unroll 1
    for (u32 i = 0; i < RING; i++, at -= step) {
      if (i < count) copy(cell(i), x, dy, at, i > 0 || whole);
      close_group();
    }
  }

  // After `begin`: what else is loaded between the two is under way together with the first rows.
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

  // `other` is a tensor that is read now only.
  template <bool OTHER, class F>
  __device__ __forceinline__ void write(const act* x, const act* dy, const act* other, F&& put) const {
    static_assert(AHEAD <= RING, "a row has come when its `other` has");
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

  // Sends the two sums of every channel over the rows of the block. Letters are [set][slab][2][channels].
  __device__ __forceinline__ void send_sums(const float* a, const float* b, const Meeting& meeting) const {
    float *space = reinterpret_cast<float*>(cells + behind()), *mine = space + 2 * threadIdx.y * channels + threadIdx.x * VEC;
#pragma unroll
    for (int j = 0; j < VEC; j += 4) {
      *reinterpret_cast<float4*>(mine + j) = make_float4(a[j], a[j + 1], a[j + 2], a[j + 3]);
      *reinterpret_cast<float4*>(mine + channels + j) = make_float4(b[j], b[j + 1], b[j + 2], b[j + 3]);
    }
    __syncthreads();
    u64* letters = meeting.letters + (u64)(blockIdx.y * gridDim.x + blockIdx.x) * 2 * channels;
#pragma unroll 1
    for (u32 i = thread; i < 2 * channels; i += threads) {
      float sum = 0.f;
#pragma unroll 4
      for (u32 t = 0; t < blockDim.y; t++) sum += space[2 * t * channels + i];
      send(letters + i, sum, launch);
    }
  }

  // Calls `decide` for each channel that is the block's own, with the two sums over all slabs and what `before` gave for the
  // channel while they were on their way. A warp adds a channel's; all its threads call.
  template <class B, class F>
  __device__ __forceinline__ void own(u32 per, const Meeting& meeting, B&& before, F&& decide) const {
    u32 lane = thread % 32, end = min((blockIdx.x + 1) * per, channels);
    const u64* letters = meeting.letters + (u64)blockIdx.y * gridDim.x * 2 * channels;
    if (thread / 32 >= threads / 32) return;
#pragma unroll 1
    for (u32 c = blockIdx.x * per + thread / 32; c < end; c += threads / 32) {
      auto known = before(c);
      double a = 0, b = 0;
#pragma unroll 1
      for (u32 slab = lane; slab < gridDim.x; slab += 64) {
        // Two slabs at once.
        const u64 *one = letters + slab * 2 * channels + c, *two = slab + 32 < gridDim.x ? one + 64 * channels : one;
        u64 got[4];
        bool here;
        do {
          got[0] = look(one), got[1] = look(one + channels), got[2] = look(two), got[3] = look(two + channels);
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
  // What owners decided for all channels: [2][channels].
  __device__ __forceinline__ u64* answers(const Meeting& meeting) const {
    return meeting.answers + (u64)blockIdx.y * 2 * channels;
  }
  __device__ __forceinline__ float* receive_answers(const Meeting& meeting) const {
    float* space = reinterpret_cast<float*>(cells + behind());
    __syncthreads();
#pragma unroll 1
    for (u32 i = thread; i < 2 * channels; i += threads) space[i] = receive(answers(meeting) + i, launch);
    __syncthreads();
    // All blocks know the number of this launch once all have come here.
    u32 blocks = gridDim.x * gridDim.y;
    if (thread == 0 && atomicInc(meeting.turn + 1, blocks - 1) == blocks - 1) meeting.turn[0] = launch;
    return space;
  }
};

// Whether this thread is the last of `sets` to come here; what the others wrote before can then be read. `ticket` is zero
// again afterwards.
__device__ __forceinline__ bool comes_last(u32* ticket, u32 sets) {
  __threadfence();
  bool last = atomicInc(ticket, sets - 1) == sets - 1;
  __threadfence();
  return last;
}

// μ, 1/σ and the running statistics, then y = clamp(γ·(x − μ)/σ + β + residual). x or residual may be y; `rule` as in
// norm.cu. `copy` gets x, where it is not null. `per_row` is 1/M, `unbiased` M/(M − 1).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    norm_forward_once(const act* x, const act* residual, act* y, act* copy, const float* gamma, const float* beta, float* mean,
                      float* inverse, float epsilon, int rule, float momentum, const u32* control, float* running_mean,
                      float* running_variance, Division d, double per_row, double unbiased, u32 parameter_sets, float low,
                      float high, Meeting meeting) {
  Share<1> share(d, meeting);
  u32 channels = d.channels, column = threadIdx.x * VEC, sets = gridDim.y;
  u32 own = parameter_sets == 1 ? 0 : blockIdx.y * channels, mine = blockIdx.y * channels;
  share.begin(x, nullptr);
  // Distances from the first row: no precision is lost where the mean is far from zero. Whoever writes that row (x may be
  // y) has answers to letters from all who read it.
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
    send(share.answers(meeting) + c, mu, share.launch);
    send(share.answers(meeting) + channels + c, r, share.launch);
    mean[mine + c] = mu;
    inverse[mine + c] = r;
    if (!rule) return;
    // As many sets of running statistics as of parameters; the others are the means of their sets' updates.
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
  float* answers = share.receive_answers(meeting);
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    scale[j] *= answers[channels + column + j];
    shift[j] = fmaf(-answers[column + j], scale[j], shift[j]);
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
    send(share.answers(meeting) + c, ds * per_row, share.launch);
    send(share.answers(meeting) + channels + c, dq * r * per_row, share.launch);
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
  float* answers = share.receive_answers(meeting);
  if (!dx) return;
  // What dx has of a row's x, and of nothing.
  float slope[VEC], offset[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    slope[j] = -scale[j] * answers[channels + column + j];
    offset[j] = -scale[j] * answers[column + j] - slope[j] * mu[j];
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
