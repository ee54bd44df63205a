/* turn.h - the kernel that turns a matrix of bytes: k x n to n x k, a group each tile. */
#ifndef KEEL_CUDA_TURN_H
#define KEEL_CUDA_TURN_H

#define CUDA_TURN_TILE  32
#define CUDA_TURN_GROUP 256

static const char cuda_turn[] =
    "extern \"C\" __global__ void family(const signed char *from,\n"
    "                                  signed char *to, int k, int n) {\n"
    "  __shared__ signed char tile[32][33];\n"
    "  int tiles = (n + 31) / 32, x = threadIdx.x % 32;\n"
    "  int row = blockIdx.x / tiles * 32, column = blockIdx.x % tiles * 32;\n"
    "  for (int y = threadIdx.x / 32; y < 32; y += 8)\n"
    "    if (row + y < k && column + x < n)\n"
    "      tile[y][x] = from[(long long)(row + y) * n + column + x];\n"
    "  __syncthreads();\n"
    "  for (int y = threadIdx.x / 32; y < 32; y += 8)\n"
    "    if (column + y < n && row + x < k)\n"
    "      to[(long long)(column + y) * k + row + x] = tile[x][y];\n"
    "}\n";

#endif /* KEEL_CUDA_TURN_H */
