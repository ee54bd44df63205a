/* conv.h - what the ways of computing a convolution share. */
#ifndef KEEL_CPU_CONV_H
#define KEEL_CPU_CONV_H

#include "cpu.h"
#include "families/window.h"

/* What is added to a product, and what follows: in the computing type. */
typedef struct cpu_finish {
  const void *bias, *z; /* or NULL */
  kd_dtype dtype;
  cpu_activation act;
} cpu_finish;

/* Elements [at, at + n) of y, which are of one channel, or of any where bias is NULL. */
void cpu_finish_row(const cpu_finish *f, int64_t channel, void *y, int64_t at,
                    int64_t n);

/* What a node asks for. */
typedef struct cpu_conv_node {
  window w; /* of one dimension at least */
  int64_t images, groups;
  int64_t ins, outs; /* channels of a group */
  bool blocks_in, blocks_out, has_sum;
  cpu_activation act;
} cpu_conv_node;

/* False: what no convolution in blocks takes. */
bool cpu_read_conv(const kd_node *node, cpu_conv_node *out);

/* A convolution whose weights are packed when its kernel is made. */
typedef struct cpu_conv_kind {
  size_t size; /* of its kd_kernel, which is zeroed first */
  bool (*read)(const kd_node *node, kd_kernel *kernel);
  kd_status (*make)(kd_kernel *kernel, const kd_node *node);
  void (*destroy)(kd_kernel *kernel); /* also of what was not packed */
} cpu_conv_kind;

kd_status cpu_make_conv(const cpu_conv_kind *kind, const kd_node *node,
                        kd_kernel **out_kernel);

/* Products that winograd.c takes for it, with what is added around them; INFINITY: it does not
 * take it. */
double cpu_winograd_products(const cpu_conv_node *node);

#endif /* KEEL_CPU_CONV_H */
