/* kernels.h - every kernel of the plugin, for the table, by subject. */
#ifndef KEEL_CPU_KERNELS_H
#define KEEL_CPU_KERNELS_H

#include "cpu.h"

/* Reductions by number, as in families/rules.def: CPU_ReduceSum ... */
enum {
#define REDUCE(op, accumulator, result) CPU_##op,
#include "families/rules.def"
  CPU_REDUCTIONS
};

/* Slots of a kernel definition beside `enqueue`. Kernels that keep something are created and
 * destroyed; those that pack constants say which they have taken. */
#define CPU_CREATE(kind)                                           \
  kd_status cpu_create_##kind(CPU_UNUSED kd_device *device,        \
                              CPU_UNUSED const kd_kernel_def *def, \
                              const kd_node *node, kd_kernel **out_kernel)
#define CPU_KEEPS(kind) \
  CPU_CREATE(kind);     \
  void cpu_destroy_##kind(kd_kernel *kernel)
#define CPU_PACKS(kind) \
  CPU_KEEPS(kind);      \
  uint64_t cpu_taken_##kind(kd_kernel *kernel)
/* Those that nodes share (shared.h). */
void cpu_destroy_shared(kd_kernel *kernel);
#define CPU_SHARES(kind) \
  CPU_CREATE(kind);      \
  uint64_t cpu_taken_##kind(kd_kernel *kernel)
#define CPU_SUPPORTS(kind)                                    \
  kd_status cpu_supports_##kind(CPU_UNUSED kd_device *device, \
                                const kd_node *node)
#define CPU_WORKSPACE(kind)                                   \
  uint64_t cpu_##kind##_workspace(CPU_UNUSED kd_kernel *self, \
                                  CPU_UNUSED const kd_launch *launch)

/* ---- elementwise, by elementwise.def or by themselves ---- */

CPU_KERNEL(cpu_run_unary);
CPU_KERNEL(cpu_run_binary);
CPU_KERNEL(cpu_run_variadic);
CPU_KERNEL(cpu_run_mean);
CPU_KERNEL(cpu_run_clip);
CPU_KERNEL(cpu_run_mod);
CPU_KERNEL(cpu_run_shift);
CPU_KERNEL(cpu_run_pow);
CPU_KERNEL(cpu_run_where);
CPU_KERNEL(cpu_run_gelu);
CPU_KERNEL(cpu_run_is_inf);
CPU_KERNEL(cpu_run_is_nan);
CPU_KERNEL(cpu_run_not);
CPU_KERNEL(cpu_run_cast);
CPU_KERNEL(cpu_run_count_bits);
CPU_KERNEL(cpu_run_within);

/* ---- reductions, scans, orders, searches ---- */

CPU_KERNEL(cpu_run_reduce);
CPU_KERNEL(cpu_run_arg_reduce);
CPU_KERNEL(cpu_run_cum_sum);
CPU_KERNEL(cpu_run_softmax);
CPU_KERNEL(cpu_run_top_k);
CPU_KERNEL(cpu_run_arg_sort);
CPU_KERNEL(cpu_run_find);
CPU_KERNEL(cpu_run_unique);
CPU_KERNEL(cpu_run_non_zero);
CPU_KERNEL(cpu_run_compress);
CPU_KERNEL(cpu_run_non_max_suppression);

/* ---- normalisation ---- */

CPU_KERNEL(cpu_run_batch_norm);
CPU_KERNEL(cpu_run_instance_norm);
CPU_KERNEL(cpu_run_group_norm);
CPU_KERNEL(cpu_run_layer_norm);
CPU_KERNEL(cpu_run_rms_norm);
CPU_KERNEL(cpu_run_lp_normalization);
CPU_KERNEL(cpu_run_lrn);
CPU_KERNEL(cpu_run_mvn);

/* ---- products of matrices: floats, bytes, weights of a few bits ---- */

CPU_KERNEL(cpu_run_matmul);
CPU_KERNEL(cpu_run_fused_matmul);
CPU_KERNEL(cpu_run_gemm);
CPU_KERNEL(cpu_run_det);
CPU_KERNEL(cpu_run_einsum);
CPU_KERNEL(cpu_run_matmul_integer);
CPU_KERNEL(cpu_run_qlinear_matmul);
CPU_KERNEL(cpu_run_nbits);
CPU_PACKS(product); /* weights.c: B of a product */
CPU_WORKSPACE(matmul);
CPU_SHARES(int8_matmul);
CPU_SHARES(nbits);
CPU_WORKSPACE(nbits);

/* ---- attention, recurrent cells ---- */

CPU_KERNEL(cpu_run_attention);
CPU_KERNEL(cpu_run_grouped);
CPU_KERNEL(cpu_run_recurrent);
CPU_WORKSPACE(grouped);
CPU_CREATE(recurrent);
CPU_WORKSPACE(recurrent);

/* ---- convolutions of rows ---- */

CPU_KERNEL(cpu_run_conv);
CPU_KERNEL(cpu_run_conv_transpose);
CPU_KERNEL(cpu_run_depthwise);
CPU_KERNEL(cpu_run_conv_integer);
CPU_KERNEL(cpu_run_qlinear_conv);
CPU_SUPPORTS(depthwise);
CPU_SHARES(int8_conv);

/* ---- pooling, windows, images ---- */

CPU_KERNEL(cpu_run_pool);
CPU_KERNEL(cpu_run_global_pool);
CPU_KERNEL(cpu_run_global_lp_pool);
CPU_KERNEL(cpu_run_max_unpool);
CPU_KERNEL(cpu_run_reduce_window);
CPU_KERNEL(cpu_run_select_and_scatter);
CPU_KERNEL(cpu_run_resize);
CPU_KERNEL(cpu_run_grid_sample);
CPU_KERNEL(cpu_run_roi_align);
CPU_KERNEL(cpu_run_max_roi_pool);

/* ---- signals ---- */

CPU_KERNEL(cpu_run_dft);
CPU_KERNEL(cpu_run_stft);
CPU_KERNEL(cpu_run_mel);
CPU_KERNEL(cpu_run_window);

/* ---- moving data: dimensions, slices, indices ---- */

CPU_KERNEL(cpu_run_transpose);
CPU_KERNEL(cpu_run_expand);
CPU_KERNEL(cpu_run_concat);
CPU_KERNEL(cpu_run_split);
CPU_KERNEL(cpu_run_slice);
CPU_KERNEL(cpu_run_pad);
CPU_KERNEL(cpu_run_tile);
CPU_KERNEL(cpu_run_depth_to_space);
CPU_KERNEL(cpu_run_space_to_depth);
CPU_KERNEL(cpu_run_trilu);
CPU_KERNEL(cpu_run_reverse_sequence);
CPU_KERNEL(cpu_run_gather);
CPU_KERNEL(cpu_run_gather_elements);
CPU_KERNEL(cpu_run_gather_nd);
CPU_KERNEL(cpu_run_scatter_elements);
CPU_KERNEL(cpu_run_scatter_nd);
CPU_KERNEL(cpu_run_one_hot);
CPU_KERNEL(cpu_run_dynamic_slice);
CPU_KERNEL(cpu_run_dynamic_update);
CPU_KERNEL(cpu_run_couple);
CPU_SUPPORTS(scatter);

/* ---- constants, random numbers ---- */

CPU_KERNEL(cpu_run_constant_of_shape);
CPU_KERNEL(cpu_run_range);
CPU_KERNEL(cpu_run_eye_like);
CPU_KERNEL(cpu_run_random_bits);

/* ---- quantisation ---- */

CPU_KERNEL(cpu_run_quantize);
CPU_KERNEL(cpu_run_dequantize);
CPU_KERNEL(cpu_run_dynamic_quantize);

/* ---- losses, trees ---- */

CPU_KERNEL(cpu_run_nll_loss);
CPU_KERNEL(cpu_run_sce_loss);
CPU_KERNEL(cpu_run_trees);
CPU_KEEPS(trees);

/* ---- of channels in blocks (blocked.h), where oneDNN's headers were found: convolutions ---- */

CPU_KERNEL(cpu_run_conv_blocked);
CPU_KERNEL(cpu_run_direct_blocked);
CPU_KERNEL(cpu_run_winograd);
CPU_KERNEL(cpu_run_dilated);
CPU_SUPPORTS(conv); /* oneDNN has code for it */
CPU_CREATE(conv);
uint64_t cpu_taken_conv(kd_kernel *kernel);
CPU_SUPPORTS(direct);
/* where it is faster than oneDNN */
kd_status cpu_prefers_direct(kd_device *device, const kd_node *node);
CPU_PACKS(direct);
CPU_WORKSPACE(direct);
CPU_SUPPORTS(winograd);
CPU_PACKS(winograd);
CPU_WORKSPACE(winograd);
CPU_SUPPORTS(dilated);
CPU_PACKS(dilated);
CPU_WORKSPACE(dilated);

/* ---- pooling in blocks: by oneDNN, by pool_blocks.c ---- */

CPU_KERNEL(cpu_run_pool_blocked);
CPU_KERNEL(cpu_run_pool_blocks);
CPU_SUPPORTS(pool);
CPU_CREATE(pool);
CPU_WORKSPACE(blocked); /* of oneDNN's kernels */
void cpu_destroy_blocked(kd_kernel *kernel);
CPU_SUPPORTS(pool_blocks);
CPU_KEEPS(pool_blocks);

/* ---- other ops in blocks ---- */

CPU_KERNEL(cpu_run_scale_blocked);
CPU_KERNEL(cpu_run_norm_blocked);
CPU_KERNEL(cpu_run_concat_blocked);
CPU_KERNEL(cpu_run_slice_blocked);
CPU_KERNEL(cpu_run_transpose_blocked);
CPU_SUPPORTS(scale);
CPU_SUPPORTS(norm);
CPU_SUPPORTS(join);
CPU_SUPPORTS(cut);
CPU_SUPPORTS(turn);
CPU_SUPPORTS(resize);

/* ---- the layout of blocks ---- */

uint32_t cpu_layout_preferred(kd_device *device, const kd_node *node,
                              uint32_t argument);
uint64_t cpu_layout_size(kd_device *device, const kd_type *type);
kd_status cpu_layout_from_rows(kd_device *device, kd_stream *stream,
                               const kd_tensor *source,
                               const kd_tensor *target);
kd_status cpu_layout_to_rows(kd_device *device, kd_stream *stream,
                             const kd_tensor *source, const kd_tensor *target);

#endif /* KEEL_CPU_KERNELS_H */
