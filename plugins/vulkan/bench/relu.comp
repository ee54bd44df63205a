/* Relu on floats: what launch.c launches without Keel. */
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
  source x;
  target y;
  int count;
};
void main() {
  int i = int(gl_GlobalInvocationID.x);
  if (i < count) y.v[i] = max(x.v[i], 0.0);
}
