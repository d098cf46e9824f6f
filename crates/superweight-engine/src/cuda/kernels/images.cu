// A batch drawn from images that lie on the device as bytes: flip, shifted crop, normalise, cut out.

struct Draw {
  u32 image, flip;
  int down, right;
  u32 hole_rows[2], hole_columns[2];
};

// table[channel][256]; rows of the batch beyond `count` are zeros of class 0.
extern "C" __global__ void draw_images(const unsigned char* pixels, const u32* classes, const float* table,
                                       const Draw* draws, const u32* count, act* to, u32* labels, u64 n, u32 rows,
                                       u32 height, u32 width, u32 channels) {
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u32 c = i % channels;
    u64 p = i / channels;
    u32 x = p % width, y = p / width % height, row = p / width / height;
    float value = 0.f;
    if (row < *count) {
      Draw d = draws[row];
      bool hole = y >= d.hole_rows[0] && y < d.hole_rows[1] && x >= d.hole_columns[0] && x < d.hole_columns[1];
      u32 from_y = y + d.down, from_x = x + d.right;
      unsigned char byte = 0;
      if (from_y < height && from_x < width) {
        if (d.flip == 1) from_x = width - 1 - from_x;
        byte = pixels[(((u64)d.image * height + from_y) * width + from_x) * channels + c];
      }
      if (!hole) value = table[c * 256 + byte];
    }
    to[i] = to_act(value);
  }
  for (u64 row = thread_index(); row < rows; row += thread_count())
    labels[row] = row < *count ? classes[draws[row].image] : 0;
}
