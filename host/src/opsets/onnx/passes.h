/* passes.h - the passes that know ONNX's ops. */
#ifndef KEEL_ONNX_PASSES_H
#define KEEL_ONNX_PASSES_H

#include "passes/passes.h"

/* Replaces ops by simpler ones, and infers their types: those that no device has a kernel for,
 * and functions (ops.def) that their own device has none for. device: of nodes that name none,
 * or NULL. */
keel_status keel_pass_expand(keel_function *function, keel_device *device);

/* Replaces ops of one name by simpler ones, whatever kernels there are; types are not inferred. */
keel_status keel_expand_all_of(keel_function *function, const char *domain,
                               const char *op);

/* Removes no-ops (x * 1, a Transpose and its inverse) and replaces expensive ops by cheaper
 * ones, without changing any result. */
keel_status keel_pass_algebra(keel_function *function);

/* Rewrites Einsum as matrix products, if shapes are known and the device has the ops; einsum.c has
 * the exceptions. */
keel_status keel_pass_einsum(keel_function *function, keel_device *device);

/* Replaces DequantizeLinear, op, QuantizeLinear by an op on bytes, if the device has a
 * kernel for it; results differ by at most one quantised step. */
keel_status keel_pass_quantise(keel_function *function, keel_device *device);

/* Reads constant weights of 8, 4 and 2 bits as they are, by MatMulNBits, if the device has it. */
keel_status keel_pass_packed(keel_function *function, keel_device *device);

/* Keeps f16 and bf16 intermediates in f32, on devices that compute them in f32 anyway;
 * results are rounded less often. */
keel_status keel_pass_widen(keel_function *function, keel_device *device);

/* Recognises Gelu, HardSwish, LayerNormalization and RMSNormalization that models write
 * with simpler ops, if types are known and the device has the op. */
keel_status keel_pass_patterns(keel_function *function, keel_device *device);

/* Replaces the products and softmax of attention by keel::Attention, if shapes are known
 * and the device has the op. */
keel_status keel_pass_attention(keel_function *function, keel_device *device);

/* Merges zero padding into the convolution that reads it. */
keel_status keel_pass_pads(keel_function *function, keel_device *device);

/* Removes taps of convolutions that see only padding. */
keel_status keel_pass_taps(keel_function *function);

/* Folds BatchNormalization into Conv's weights, and fuses additions and activations after
 * Conv into keel::FusedConv or ActivatedConv, if the device has the op. */
keel_status keel_pass_fuse(keel_function *function, keel_device *device);

/* Fuses a bias, a sum and an activation after MatMul with constant weights into
 * keel::FusedMatMul, if types are known and the device has the op. */
keel_status keel_pass_products(keel_function *function, keel_device *device);

/* Replaces MatMul of two matrices that a run computes, where a Transpose is before or behind
 * it, by Gemm, if shapes are known and the device has the op. */
keel_status keel_pass_transposed(keel_function *function, keel_device *device);

/* Replaces a depthwise convolution between a Transpose to channels first and one back by
 * keel::DepthwiseConv, which works on channels last, if shapes are known and the device has
 * the op. */
keel_status keel_pass_depthwise(keel_function *function, keel_device *device);

/* An activation, named as in keel::FusedMatMul and DepthwiseConv. */
typedef struct keel_activation {
  const char *name; /* Relu, Gelu, GeluTanh or Silu */
  uint32_t last;    /* the node that makes its result */
  uint32_t gate;    /* Silu's Sigmoid, or KEEL_ABSENT */
} keel_activation;

/* Finds the activation that is the only reader of a value, on that device (a node's, may be
 * NULL). */
bool keel_pass_activation(const keel_function *function, const keel_uses *uses,
                          uint32_t value, const keel_device *device,
                          keel_activation *out);

/* Multiplications and additions of a matrix product, for the rules of ops that are one. */
struct keel_flops_of;
double keel_product_flops(const struct keel_flops_of *of);

#endif /* KEEL_ONNX_PASSES_H */
