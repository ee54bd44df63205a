/* pad.h - the kernels that write planes with zeros around them, or cut them; by the size of
 * an element. Planes have three dimensions. */
#ifndef KEEL_CUDA_PAD_H
#define KEEL_CUDA_PAD_H

#include <stddef.h>

#define CUDA_PAD_GROUP 256

/* Planes of sizes `to` from those of `n`, which begin at `at` in them. */
#define CUDA_PAD(type)                                                  \
  "typedef " type                                                       \
  " element;\n"                                                         \
  "extern \"C\" __global__ void family(const element *from,\n"          \
  "    element *to, long long count, long long step, int to_0,\n"       \
  "    int to_1, int to_2, int n_0, int n_1, int n_2, int at_0,\n"      \
  "    int at_1, int at_2) {\n"                                         \
  "  long long i = (long long)blockIdx.x * 256 + threadIdx.x;\n"        \
  "  for (; i < count; i += step) {\n"                                  \
  "    long long rest = i;\n"                                           \
  "    int z = (int)(rest % to_2) - at_2;\n"                            \
  "    rest /= to_2;\n"                                                 \
  "    int y = (int)(rest % to_1) - at_1;\n"                            \
  "    rest /= to_1;\n"                                                 \
  "    int x = (int)(rest % to_0) - at_0;\n"                            \
  "    rest /= to_0;\n"                                                 \
  "    bool in = x >= 0 && x < n_0 && y >= 0 && y < n_1 && z >= 0 &&\n" \
  "              z < n_2;\n"                                            \
  "    rest = ((rest * n_0 + x) * n_1 + y) * n_2 + z;\n"                \
  "    to[i] = in ? from[rest] : (element)0;\n"                         \
  "  }\n"                                                               \
  "}\n"

static const char cuda_pad_2[] = CUDA_PAD("unsigned short");
static const char cuda_pad_4[] = CUDA_PAD("unsigned int");
static const char cuda_pad_8[] = CUDA_PAD("unsigned long long");

static inline const char *cuda_pad(size_t size) {
  return size == 2 ? cuda_pad_2 : size == 4 ? cuda_pad_4 : cuda_pad_8;
}

#endif /* KEEL_CUDA_PAD_H */
