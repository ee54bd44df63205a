/* C = A B, 8 rows of a column an item: what raw.c multiplies with. */
#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer source {
  float v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer target {
  float v[];
};
layout(push_constant) uniform block {
  source a, b;
  target c;
  int m, n, k;
};
void main() {
  int column = int(gl_GlobalInvocationID.x), row = int(gl_WorkGroupID.y) * 8;
  float sums[8] = float[8](0, 0, 0, 0, 0, 0, 0, 0);
  for (int i = 0; i < k; i++) {
    float x = b.v[i * n + column];
    for (int r = 0; r < 8; r++)
      sums[r] += a.v[(row + r) * k + i] * x;
  }
  for (int r = 0; r < 8; r++)
    c.v[(row + r) * n + column] = sums[r];
}
