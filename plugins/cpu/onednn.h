/* onednn.h - oneDNN, opened when it is first needed. */
#ifndef KEEL_CPU_DNNL_H
#define KEEL_CPU_DNNL_H

#include <dnnl.h>

/* The functions that are used: declared, loaded and missed from one list. */
#define DNNL_FUNCTIONS(X)                  \
  X(engine_create)                         \
  X(stream_create)                         \
  X(memory_desc_init_by_tag)               \
  X(memory_desc_get_size)                  \
  X(memory_desc_equal)                     \
  X(memory_create)                         \
  X(memory_destroy)                        \
  X(post_ops_create)                       \
  X(post_ops_destroy)                      \
  X(post_ops_append_sum)                   \
  X(post_ops_append_eltwise)               \
  X(primitive_attr_create)                 \
  X(primitive_attr_destroy)                \
  X(primitive_attr_set_post_ops)           \
  X(primitive_attr_set_scratchpad_mode)    \
  X(dilated_convolution_forward_desc_init) \
  X(pooling_v2_forward_desc_init)          \
  X(primitive_desc_create)                 \
  X(primitive_desc_destroy)                \
  X(primitive_desc_query_md)               \
  X(primitive_desc_query)                  \
  X(reorder_primitive_desc_create)         \
  X(primitive_create)                      \
  X(primitive_destroy)                     \
  X(primitive_execute)

typedef struct cpu_dnnl {
#define DNNL_SLOT(name) __typeof__(dnnl_##name) *name;
  DNNL_FUNCTIONS(DNNL_SLOT)
#undef DNNL_SLOT
  dnnl_engine_t engine;
  dnnl_stream_t stream; /* work on it is done when a call returns */
} cpu_dnnl;

/* The library, or NULL where it is not there; the calling thread is made to use
 * no OpenMP team of its own. Any thread. */
const cpu_dnnl *cpu_dnnl_get(void);

#endif /* KEEL_CPU_DNNL_H */
