/* kernels.h - every kernel of the plugin, for the table. */
#ifndef KEEL_CPU_KERNELS_H
#define KEEL_CPU_KERNELS_H

#include "cpu.h"

/* Reductions by number, as in families/rules.def: CPU_ReduceSum ... */
enum {
#define REDUCE(op, accumulator, result) CPU_##op,
#include "families/rules.def"
  CPU_REDUCTIONS
};

CPU_KERNEL(cpu_run_arg_reduce);
CPU_KERNEL(cpu_run_attention);
CPU_KERNEL(cpu_run_batch_norm);
CPU_KERNEL(cpu_run_binary);
CPU_KERNEL(cpu_run_cast);
CPU_KERNEL(cpu_run_clip);
CPU_KERNEL(cpu_run_compress);
CPU_KERNEL(cpu_run_concat);
CPU_KERNEL(cpu_run_constant_of_shape);
CPU_KERNEL(cpu_run_concat_blocked);
CPU_KERNEL(cpu_run_transpose_blocked);
CPU_KERNEL(cpu_run_conv);
CPU_KERNEL(cpu_run_conv_blocked);
CPU_KERNEL(cpu_run_direct_blocked);
CPU_KERNEL(cpu_run_winograd);
CPU_KERNEL(cpu_run_dilated);
CPU_KERNEL(cpu_run_conv_integer);
CPU_KERNEL(cpu_run_conv_transpose);
CPU_KERNEL(cpu_run_couple);
CPU_KERNEL(cpu_run_cum_sum);
CPU_KERNEL(cpu_run_arg_sort);
CPU_KERNEL(cpu_run_count_bits);
CPU_KERNEL(cpu_run_dynamic_slice);
CPU_KERNEL(cpu_run_dynamic_update);
CPU_KERNEL(cpu_run_random_bits);
CPU_KERNEL(cpu_run_reduce_window);
CPU_KERNEL(cpu_run_select_and_scatter);
CPU_KERNEL(cpu_run_depth_to_space);
CPU_KERNEL(cpu_run_depthwise);
CPU_KERNEL(cpu_run_dequantize);
CPU_KERNEL(cpu_run_dft);
CPU_KERNEL(cpu_run_det);
CPU_KERNEL(cpu_run_dynamic_quantize);
CPU_KERNEL(cpu_run_einsum);
CPU_KERNEL(cpu_run_expand);
CPU_KERNEL(cpu_run_eye_like);
CPU_KERNEL(cpu_run_find);
CPU_KERNEL(cpu_run_within);
CPU_KERNEL(cpu_run_fused_matmul);
CPU_KERNEL(cpu_run_gather);
CPU_KERNEL(cpu_run_gather_elements);
CPU_KERNEL(cpu_run_gather_nd);
CPU_KERNEL(cpu_run_gelu);
CPU_KERNEL(cpu_run_gemm);
CPU_KERNEL(cpu_run_global_lp_pool);
CPU_KERNEL(cpu_run_global_pool);
CPU_KERNEL(cpu_run_grid_sample);
CPU_KERNEL(cpu_run_group_norm);
CPU_KERNEL(cpu_run_grouped);
CPU_KERNEL(cpu_run_instance_norm);
CPU_KERNEL(cpu_run_is_inf);
CPU_KERNEL(cpu_run_is_nan);
CPU_KERNEL(cpu_run_layer_norm);
CPU_KERNEL(cpu_run_lp_normalization);
CPU_KERNEL(cpu_run_lrn);
CPU_KERNEL(cpu_run_matmul);
CPU_KERNEL(cpu_run_matmul_integer);
CPU_KERNEL(cpu_run_max_roi_pool);
CPU_KERNEL(cpu_run_max_unpool);
CPU_KERNEL(cpu_run_mean);
CPU_KERNEL(cpu_run_mel);
CPU_KERNEL(cpu_run_mod);
CPU_KERNEL(cpu_run_mvn);
CPU_KERNEL(cpu_run_nbits);
CPU_KERNEL(cpu_run_nll_loss);
CPU_KERNEL(cpu_run_non_max_suppression);
CPU_KERNEL(cpu_run_non_zero);
CPU_KERNEL(cpu_run_not);
CPU_KERNEL(cpu_run_one_hot);
CPU_KERNEL(cpu_run_pad);
CPU_KERNEL(cpu_run_pool);
CPU_KERNEL(cpu_run_norm_blocked);
CPU_KERNEL(cpu_run_pool_blocked);
CPU_KERNEL(cpu_run_pool_blocks);
CPU_KERNEL(cpu_run_pow);
CPU_KERNEL(cpu_run_qlinear_conv);
CPU_KERNEL(cpu_run_qlinear_matmul);
CPU_KERNEL(cpu_run_quantize);
CPU_KERNEL(cpu_run_range);
CPU_KERNEL(cpu_run_recurrent);
CPU_KERNEL(cpu_run_reduce);
CPU_KERNEL(cpu_run_resize);
CPU_KERNEL(cpu_run_reverse_sequence);
CPU_KERNEL(cpu_run_rms_norm);
CPU_KERNEL(cpu_run_roi_align);
CPU_KERNEL(cpu_run_scale_blocked);
CPU_KERNEL(cpu_run_scatter_elements);
CPU_KERNEL(cpu_run_scatter_nd);
CPU_KERNEL(cpu_run_sce_loss);
CPU_KERNEL(cpu_run_shift);
CPU_KERNEL(cpu_run_slice);
CPU_KERNEL(cpu_run_softmax);
CPU_KERNEL(cpu_run_space_to_depth);
CPU_KERNEL(cpu_run_split);
CPU_KERNEL(cpu_run_stft);
CPU_KERNEL(cpu_run_tile);
CPU_KERNEL(cpu_run_top_k);
CPU_KERNEL(cpu_run_transpose);
CPU_KERNEL(cpu_run_trees);
CPU_KERNEL(cpu_run_trilu);
CPU_KERNEL(cpu_run_unary);
CPU_KERNEL(cpu_run_unique);
CPU_KERNEL(cpu_run_variadic);
CPU_KERNEL(cpu_run_where);
CPU_KERNEL(cpu_run_window);

kd_status cpu_supports_scatter(kd_device *device, const kd_node *node);
uint64_t cpu_grouped_workspace(kd_kernel *self, const kd_launch *launch);
uint64_t cpu_matmul_workspace(kd_kernel *self, const kd_launch *launch);

kd_status cpu_create_nbits(kd_device *device, const kd_kernel_def *def,
                           const kd_node *node, kd_kernel **out_kernel);
uint64_t cpu_taken_nbits(kd_kernel *kernel);
void cpu_destroy_nbits(kd_kernel *kernel);
uint64_t cpu_nbits_workspace(kd_kernel *self, const kd_launch *launch);

/* weights.c: kernels of products */
kd_status cpu_create_product(kd_device *device, const kd_kernel_def *def,
                             const kd_node *node, kd_kernel **out_kernel);
void cpu_destroy_product(kd_kernel *kernel);
uint64_t cpu_taken_product(kd_kernel *kernel);

kd_status cpu_create_recurrent(kd_device *device, const kd_kernel_def *def,
                               const kd_node *node, kd_kernel **out_kernel);
uint64_t cpu_recurrent_workspace(kd_kernel *self, const kd_launch *launch);
void cpu_destroy_recurrent(kd_kernel *kernel);

/* int8_matmul.c, int8_conv.c: constant operands are packed */
kd_status cpu_create_int8_matmul(kd_device *device, const kd_kernel_def *def,
                                 const kd_node *node, kd_kernel **out_kernel);
uint64_t cpu_taken_int8_matmul(kd_kernel *kernel);
void cpu_destroy_int8_matmul(kd_kernel *kernel);
kd_status cpu_create_int8_conv(kd_device *device, const kd_kernel_def *def,
                               const kd_node *node, kd_kernel **out_kernel);
uint64_t cpu_taken_int8_conv(kd_kernel *kernel);
void cpu_destroy_int8_conv(kd_kernel *kernel);

/* trees.c: nodes are laid out for the walk */
kd_status cpu_create_trees(kd_device *device, const kd_kernel_def *def,
                           const kd_node *node, kd_kernel **out_kernel);
void cpu_destroy_trees(kd_kernel *kernel);

/* depthwise.c */
kd_status cpu_supports_depthwise(kd_device *device, const kd_node *node);

/* blocked_turn.c, where oneDNN's headers were found */
kd_status cpu_supports_turn(kd_device *device, const kd_node *node);
/* blocked.c, and the others below, where they were found */
kd_status cpu_supports_conv(kd_device *device, const kd_node *node);
kd_status cpu_create_conv(kd_device *device, const kd_kernel_def *def,
                          const kd_node *node, kd_kernel **out_kernel);
/* blocked_direct.c; prefers: where it is faster than oneDNN */
kd_status cpu_supports_direct(kd_device *device, const kd_node *node);
kd_status cpu_prefers_direct(kd_device *device, const kd_node *node);
kd_status cpu_create_direct(kd_device *device, const kd_kernel_def *def,
                            const kd_node *node, kd_kernel **out_kernel);
uint64_t cpu_taken_direct(kd_kernel *kernel);
uint64_t cpu_direct_workspace(kd_kernel *kernel, const kd_launch *launch);
void cpu_destroy_direct(kd_kernel *kernel);
/* dilated.c */
kd_status cpu_supports_dilated(kd_device *device, const kd_node *node);
kd_status cpu_create_dilated(kd_device *device, const kd_kernel_def *def,
                             const kd_node *node, kd_kernel **out_kernel);
uint64_t cpu_taken_dilated(kd_kernel *kernel);
uint64_t cpu_dilated_workspace(kd_kernel *kernel, const kd_launch *launch);
void cpu_destroy_dilated(kd_kernel *kernel);
/* winograd.c */
kd_status cpu_supports_winograd(kd_device *device, const kd_node *node);
kd_status cpu_create_winograd(kd_device *device, const kd_kernel_def *def,
                              const kd_node *node, kd_kernel **out_kernel);
uint64_t cpu_taken_winograd(kd_kernel *kernel);
uint64_t cpu_winograd_workspace(kd_kernel *kernel, const kd_launch *launch);
void cpu_destroy_winograd(kd_kernel *kernel);
kd_status cpu_supports_scale(kd_device *device, const kd_node *node);
kd_status cpu_supports_norm(kd_device *device, const kd_node *node);
kd_status cpu_supports_join(kd_device *device, const kd_node *node);
kd_status cpu_supports_cut(kd_device *device, const kd_node *node);
CPU_KERNEL(cpu_run_slice_blocked);
kd_status cpu_supports_resize(kd_device *device, const kd_node *node);
/* blocked_pool.c */
kd_status cpu_supports_pool_blocks(kd_device *device, const kd_node *node);
kd_status cpu_create_pool_blocks(kd_device *device, const kd_kernel_def *def,
                                 const kd_node *node, kd_kernel **out_kernel);
void cpu_destroy_pool_blocks(kd_kernel *kernel);
kd_status cpu_supports_pool(kd_device *device, const kd_node *node);
kd_status cpu_create_pool(kd_device *device, const kd_kernel_def *def,
                          const kd_node *node, kd_kernel **out_kernel);
uint64_t cpu_taken_conv(kd_kernel *kernel);
uint64_t cpu_blocked_workspace(kd_kernel *kernel, const kd_launch *launch);
void cpu_destroy_blocked(kd_kernel *kernel);
uint32_t cpu_layout_preferred(kd_device *device, const kd_node *node,
                              uint32_t argument);
uint64_t cpu_layout_size(kd_device *device, const kd_type *type);
kd_status cpu_layout_from_rows(kd_device *device, kd_stream *stream,
                               const kd_tensor *source,
                               const kd_tensor *target);
kd_status cpu_layout_to_rows(kd_device *device, kd_stream *stream,
                             const kd_tensor *source, const kd_tensor *target);

#endif /* KEEL_CPU_KERNELS_H */
