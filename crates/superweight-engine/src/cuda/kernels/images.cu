// Augments a batch of images stored on the GPU as bytes: crop and resize, flip, shift, normalise,
// cutout.

struct Sample {
  u32 image, flip;
  int down, right;
  u32 cutout_rows[2], cutout_columns[2];
  u32 crop[4];
};

// A position between two rows or columns: `Between` in images/set.rs.
struct Between { u32 first, second, past; };

__device__ __forceinline__ Between between(u32 at, u32 size, u32 first, u32 count) {
  u32 place = (2 * at + 1) * count;
  place = place > size ? place - size : 0;
  u32 low = place / (2 * size);
  return Between{first + low, first + min(low + 1, count - 1), place % (2 * size)};
}

// table[channel][256]. Images of the batch beyond `count` are zeros of class 0. A row has `abreast`
// images side by side, as channels.
extern "C" __global__ void draw_images(const unsigned char* pixels, const u32* classes, const float* table,
                                       const Sample* draws, const u32* count, act* to, u32* labels, u64 n, u32 rows,
                                       u32 height, u32 width, u32 channels, u32 abreast) {
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u32 column = i % (channels * abreast), c = column % channels;
    u64 p = i / (channels * abreast);
    u32 x = p % width, y = p / width % height, row = p / width / height * abreast + column / channels;
    float value = 0.f;
    if (row < *count) {
      Sample d = draws[row];
      bool cutout = y >= d.cutout_rows[0] && y < d.cutout_rows[1] && x >= d.cutout_columns[0] && x < d.cutout_columns[1];
      u32 from_y = y + d.down, from_x = x + d.right;
      unsigned char byte = 0;
      if (from_y < height && from_x < width) {
        if (d.flip == 1) from_x = width - 1 - from_x;
        const unsigned char* image = pixels + (u64)d.image * height * width * channels + c;
        if (d.crop[2] && d.crop[3]) {
          Between v = between(from_y, height, d.crop[0], d.crop[2]), h = between(from_x, width, d.crop[1], d.crop[3]);
          auto at = [&](u32 y, u32 x) { return (u64)image[((u64)y * width + x) * channels]; };
          u64 wide = 2 * width, high = 2 * height;
          u64 top = (wide - h.past) * at(v.first, h.first) + h.past * at(v.first, h.second);
          u64 bottom = (wide - h.past) * at(v.second, h.first) + h.past * at(v.second, h.second);
          u64 sum = (high - v.past) * top + v.past * bottom + wide * high / 2;
          // In 32 bits where possible: GPUs divide 64-bit integers by a subroutine.
          byte = wide * high < (1u << 24) ? (u32)sum / (u32)(wide * high) : sum / (wide * high);
        } else byte = image[((u64)from_y * width + from_x) * channels];
      }
      if (!cutout) value = table[c * 256 + byte];
    }
    to[i] = to_act(value);
  }
  for (u64 row = thread_index(); row < rows; row += thread_count())
    labels[row] = row < *count ? classes[draws[row].image] : 0;
}
