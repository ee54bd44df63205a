/* packed.c - weights of 8, 4 or 2 bits stay packed: DequantizeLinear of a constant, MatMul become
 * com.microsoft's MatMulNBits, on devices that have it. Comes before constants are folded, as
 * weights would be floats then, four to sixteen times as large.
 *
 * Weights of 8 bits are left alone where it is known that many rows meet them: made floats once,
 * they serve these in less time. And where a model quantises its activations, too: its products
 * are of bytes (quantise.c). */
#include <kd/help.h>

#include "device/device.h"
#include "opsets/onnx/passes.h"

#define ROWS_FEW 8

/* A constant matrix and how it is quantised; rows of it are inputs of a column, unless it is
 * transposed. */
typedef struct matrix {
  const keel_tensor *numbers, *scales, *zeros; /* zeros: NULL: 0 */
  bool transposed;
  int64_t n, k;
  int64_t block; /* that have a scale in common, along k */
  int64_t scale_n,
      scale_k; /* from a scale to that of the next column, the next block */
} matrix;

/* ---- what can be packed --------------------------------------------------------------------- */

static const keel_tensor *constant_in(const keel_function *function,
                                      const keel_node *node, uint32_t input) {
  const keel_tensor *tensor =
      input < node->input_count
          ? keel_pass_constant(function, node->inputs[input])
          : NULL;
  return tensor && tensor->kind == KEEL_DATA ? tensor : NULL;
}

static bool is_byte(kd_dtype dtype) {
  return dtype == KD_I8 || dtype == KD_U8;
}

static bool is_few_bits(kd_dtype dtype) {
  return is_byte(dtype) || dtype == KD_I4 || dtype == KD_U4 || dtype == KD_I2 ||
         dtype == KD_U2;
}

static bool is_signed(kd_dtype dtype) {
  return dtype == KD_I8 || dtype == KD_I4 || dtype == KD_I2;
}

static bool is_block(int64_t size) {
  return size >= 16 && size <= 1 << 20 && !(size & (size - 1));
}

/* Scales by blocks along k, or one a column. */
static bool read_scales(matrix *m, int64_t axis, int64_t block) {
  const keel_type *type = m->scales->type, *whole = m->numbers->type;
  int64_t along_k = m->transposed ? 1 : 0;
  axis = axis < 0 ? axis + 2 : axis;
  if (block) {
    int64_t blocks = (m->k + block - 1) / block;
    bool fits = axis == along_k && is_block(block) && type->rank == 2 &&
                type->dims[along_k] == blocks && type->dims[!along_k] == m->n;
    m->block = block;
    m->scale_n = along_k ? blocks : 1;
    m->scale_k = along_k ? 1 : m->n;
    return fits;
  }
  bool each = type->rank == 1 && type->dims[0] == m->n && axis != along_k;
  m->block = m->k >= 128 ? 128 : 32;
  m->scale_n = each;
  m->scale_k = 0;
  return (each || type->elements == 1) && whole->rank == 2;
}

/* The DequantizeLinear of a product's second operand, perhaps through a Transpose. */
static const keel_node *read_weights(const keel_function *function,
                                     const keel_node *product, matrix *m) {
  const int64_t *perm = NULL;
  const keel_node *node = keel_pass_maker(function, product->inputs[1]);
  m->transposed = node && keel_pass_is(node, "Transpose");
  if (m->transposed && keel_attr_ints(node->op, "perm", &perm) == 2 &&
      perm[0] != 1)
    return NULL;
  if (m->transposed) node = keel_pass_maker(function, node->inputs[0]);
  if (!node || !keel_pass_is(node, "DequantizeLinear")) return NULL;
  m->numbers = constant_in(function, node, 0);
  m->scales = constant_in(function, node, 1);
  m->zeros = constant_in(function, node, 2);
  bool has_zeros = node->input_count > 2 && node->inputs[2] != KEEL_ABSENT;
  if (!m->numbers || !m->scales || (has_zeros && !m->zeros) ||
      m->numbers->type->rank != 2 || !is_few_bits(m->numbers->type->dtype) ||
      (has_zeros && m->zeros->type->elements != m->scales->type->elements))
    return NULL;
  m->k = m->numbers->type->dims[m->transposed];
  m->n = m->numbers->type->dims[!m->transposed];
  return m->k > 0 && m->n > 0 &&
                 read_scales(m, keel_attr_int(node->op, "axis", 1),
                             keel_attr_int(node->op, "block_size", 0))
             ? node
             : NULL;
}

/* ---- packing ---------------------------------------------------------------------------------- */

/* Element i as MatMulNBits counts: from 0 on, so that signed ones are moved up by half. */
static uint32_t packed_number_at(const keel_tensor *tensor, int64_t i) {
  uint32_t bits = kd_dtype_bits(tensor->type->dtype), half = 1u << (bits - 1);
  const uint8_t *bytes = keel_tensor_host_data(tensor);
  uint64_t bit = (uint64_t)i * bits;
  uint32_t number = (uint32_t)(bytes[bit / 8] >> bit % 8) & ((1u << bits) - 1);
  return is_signed(tensor->type->dtype) ? number ^ half : number;
}

static void packed_put(uint8_t *bytes, int64_t i, uint32_t bits,
                       uint32_t number) {
  int64_t bit = i * bits;
  bytes[bit / 8] |= (uint8_t)(number << bit % 8);
}

static keel_status pack_numbers(keel_context *context, const matrix *m,
                                keel_tensor **out) {
  uint32_t bits = kd_dtype_bits(m->numbers->type->dtype);
  int64_t blocks = (m->k + m->block - 1) / m->block;
  const int64_t dims[] = {m->n, blocks, m->block * bits / 8};
  int64_t row = blocks * m->block * bits / 8;
  KEEL_TRY(keel_tensor_create(context, KD_U8, 3, dims, NULL, out));
  uint8_t *to = keel_tensor_host_data(*out);
  for (int64_t n = 0; n < m->n; n++)
    for (int64_t k = 0; k < m->k; k++)
      packed_put(to + n * row, k, bits,
                 packed_number_at(m->numbers,
                                  m->transposed ? n * m->k + k : k * m->n + n));
  return KD_OK;
}

static keel_status pack_scales(keel_context *context, const matrix *m,
                               keel_tensor **out) {
  int64_t blocks = (m->k + m->block - 1) / m->block;
  const int64_t dims[] = {m->n, blocks};
  size_t size = kd_dtype_size(m->scales->type->dtype);
  KEEL_TRY(
      keel_tensor_create(context, m->scales->type->dtype, 2, dims, NULL, out));
  char *to = keel_tensor_host_data(*out);
  const char *from = keel_tensor_host_data(m->scales);
  for (int64_t n = 0; n < m->n; n++)
    for (int64_t b = 0; b < blocks; b++, to += size)
      memcpy(to, from + (size_t)(n * m->scale_n + b * m->scale_k) * size, size);
  return KD_OK;
}

/* NULL in *out: all are half of the range, which is the default. */
static keel_status pack_zeros(keel_context *context, const matrix *m,
                              keel_tensor **out) {
  uint32_t bits = kd_dtype_bits(m->numbers->type->dtype);
  kd_dtype dtype = m->numbers->type->dtype;
  int64_t blocks = (m->k + m->block - 1) / m->block;
  int64_t row = (blocks * bits + 7) / 8;
  const int64_t dims[] = {m->n, row};
  *out = NULL;
  if (!m->zeros && is_signed(dtype)) return KD_OK;
  KEEL_TRY(keel_tensor_create(context, KD_U8, 2, dims, NULL, out));
  uint8_t *to = keel_tensor_host_data(*out);
  for (int64_t n = 0; m->zeros && n < m->n; n++)
    for (int64_t b = 0; b < blocks; b++)
      packed_put(to + n * row, b, bits,
                 packed_number_at(m->zeros, n * m->scale_n + b * m->scale_k));
  return KD_OK;
}

static keel_status packed_add_constant(keel_function *function,
                                       keel_tensor *tensor, uint32_t *out) {
  *out = keel_function_constant(function, "", tensor);
  keel_tensor_release(tensor);
  return *out == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
}

static keel_status pack_all(keel_function *function, const matrix *m,
                            uint32_t *inputs) {
  keel_context *context = function->context;
  keel_status (*const packs[])(keel_context *, const matrix *,
                               keel_tensor **) = {pack_numbers, pack_scales,
                                                  pack_zeros};
  for (int i = 0; i < 3; i++) {
    keel_tensor *tensor = NULL;
    keel_status status = packs[i](context, m, &tensor);
    inputs[1 + i] = KEEL_ABSENT;
    if (status == KD_OK && tensor)
      status = packed_add_constant(function, tensor, &inputs[1 + i]);
    else
      keel_tensor_release(tensor);
    if (status != KD_OK) return status;
  }
  return KD_OK;
}

/* ---- the pass ---------------------------------------------------------------------------------- */

static keel_status packed_replace(keel_function *function, uint32_t index,
                                  const matrix *m) {
  uint32_t *inputs = keel_arena_take(function->arena, 4 * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  inputs[0] = function->nodes[index].inputs[0];
  KEEL_TRY(pack_all(function, m, inputs));
  const keel_attr attrs[] = {
      KEEL_INT("K", m->k), KEEL_INT("N", m->n),
      KEEL_INT("bits", kd_dtype_bits(m->numbers->type->dtype)),
      KEEL_INT("block_size", m->block)};
  keel_node *product = &function->nodes[index];
  keel_opdef *made = NULL;
  KEEL_TRY(keel_opdef_create(function->context,
                             keel_schema_find("com.microsoft", "MatMulNBits"),
                             attrs, 4, NULL, &made));
  keel_opdef_release(product->op);
  product->op = made;
  product->inputs = inputs;
  product->input_count = inputs[3] == KEEL_ABSENT ? 3 : 4;
  return KD_OK;
}

static bool packed_has(const keel_function *function, const char *op) {
  for (uint32_t i = 0; i < function->node_count; i++)
    if (keel_pass_is(&function->nodes[i], op)) return true;
  return false;
}

static bool has_many_rows(const keel_type *type, int64_t k) {
  return keel_type_known(type) && type->elements / k > ROWS_FEW;
}

static keel_status packed_visit(keel_function *function, keel_device *device,
                                uint32_t index, bool bytes) {
  const keel_node *product = &function->nodes[index];
  keel_device *where = product->device ? product->device : device;
  matrix m = {0};
  if (!keel_pass_is(product, "MatMul") || !where ||
      !keel_schema_find("com.microsoft", "MatMulNBits") ||
      !keel_device_kernels(where, "com.microsoft", "MatMulNBits"))
    return KD_OK;
  const keel_node *node = read_weights(function, product, &m);
  uint32_t a = product->inputs[0];
  const keel_type *type = function->values[a].type;
  if (!node || !type || type->rank < 1 || function->values[a].constant ||
      type->dtype != m.scales->type->dtype ||
      (is_byte(m.numbers->type->dtype) && (!bytes || has_many_rows(type, m.k))))
    return KD_OK;
  return packed_replace(function, index, &m);
}

keel_status keel_pass_packed(keel_function *function, keel_device *device) {
  bool any = packed_has(function, "DequantizeLinear");
  bool bytes = !packed_has(function, "QuantizeLinear") &&
               !packed_has(function, "DynamicQuantizeLinear");
  uint32_t count = function->node_count;
  keel_status status = KD_OK;
  for (uint32_t i = 0; any && i < count && status == KD_OK; i++)
    status = packed_visit(function, device, i, bytes);
  return status;
}
