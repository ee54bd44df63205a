/* widen.c - models of f16 and bf16 on a device that computes them as f32.
 *
 * Such a device declares KD_DEVICE_WIDENS. Values between its ops then stay f32, without the first
 * op's rounding: results are more exact, and no op rounds or widens. Constants are widened here,
 * once. A function without a product or a convolution is left as it is: its ops have little to
 * gain. */
#include "base/float.h"
#include "device/device.h"
#include "opsets/onnx/passes.h"

typedef struct widening {
  keel_function *function;
  uint32_t *wide; /* by value: the same as f32, or KEEL_ABSENT */
  /* by value, also where shapes are open; KD_NONE: not known */
  kd_dtype *dtypes;
  uint32_t values;  /* that both have room for */
  float *tables[2]; /* of f16 and bf16: what their codes are */
} widening;

/* Ops that a product or convolution is worth it for. */
static const char *const heavy[] = {
    "Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN", "Einsum"};

/* Ops that compute: their outputs of these types have the type of their inputs. */
static const char *const computing[] = {"Abs",
                                        "Add",
                                        "AveragePool",
                                        "BatchNormalization",
                                        "Celu",
                                        "Clip",
                                        "CumSum",
                                        "Div",
                                        "Elu",
                                        "Erf",
                                        "Exp",
                                        "Gelu",
                                        "GlobalAveragePool",
                                        "GlobalMaxPool",
                                        "GroupNormalization",
                                        "HardSigmoid",
                                        "HardSwish",
                                        "InstanceNormalization",
                                        "LayerNormalization",
                                        "LeakyRelu",
                                        "Log",
                                        "LogSoftmax",
                                        "Max",
                                        "MaxPool",
                                        "Mean",
                                        "Min",
                                        "Mish",
                                        "Mul",
                                        "Neg",
                                        "PRelu",
                                        "Pow",
                                        "Reciprocal",
                                        "ReduceL1",
                                        "ReduceL2",
                                        "ReduceMax",
                                        "ReduceMean",
                                        "ReduceMin",
                                        "ReduceProd",
                                        "ReduceSum",
                                        "ReduceSumSquare",
                                        "RMSNormalization",
                                        "Relu",
                                        "Resize",
                                        "Selu",
                                        "Sigmoid",
                                        "Softmax",
                                        "Softplus",
                                        "Softsign",
                                        "Sqrt",
                                        "Sub",
                                        "Sum",
                                        "Tanh",
                                        "ThresholdedRelu"};

/* Ops that move elements: they go with what made these. */
static const char *const moving[] = {
    "Concat",    "DepthToSpace", "Expand", "Flatten",        "Gather",
    "GatherND",  "Identity",     "Pad",    "GatherElements", "Reshape",
    "Slice",     "SpaceToDepth", "Split",  "Squeeze",        "Tile",
    "Transpose", "Unsqueeze",    "Where"};

#define IS_ONE_OF(node, names) is_one_of(node, names, KEEL_COUNT_OF(names))
static bool is_one_of(const keel_node *node, const char *const *names,
                      size_t count) {
  if (strcmp(node->op->schema->domain, "ai.onnx") != 0) return false;
  for (size_t i = 0; i < count; i++)
    if (!strcmp(node->op->schema->name, names[i])) return true;
  return false;
}

/* ---- values ----------------------------------------------------------------------- */

static kd_dtype dtype_of(const widening *all, uint32_t value) {
  return value < all->values ? all->dtypes[value] : KD_NONE;
}

static bool is_half(const widening *all, uint32_t value) {
  kd_dtype dtype = dtype_of(all, value);
  return dtype == KD_F16 || dtype == KD_BF16;
}

static bool has_wide(const widening *all, uint32_t value) {
  return value < all->values && all->wide[value] != KEEL_ABSENT;
}

/* A new value of that shape and f32; KEEL_ABSENT: no memory. */
static uint32_t new_value(widening *all, uint32_t like) {
  const keel_type *type = all->function->values[like].type, *wide = NULL;
  if (type && keel_type_of(KD_F32, type->rank, type->dims, &wide) != KD_OK)
    return KEEL_ABSENT;
  uint32_t value = keel_function_value(all->function, "");
  if (value != KEEL_ABSENT) all->function->values[value].type = wide;
  return value;
}

static keel_status add_cast(widening *all, uint32_t from, uint32_t to,
                            kd_dtype dtype) {
  const keel_attr attr = KEEL_INT("to", dtype);
  keel_opdef *op = NULL;
  keel_node *node = NULL;
  KEEL_TRY(keel_opdef_create(all->function->context,
                             keel_schema_find("", "Cast"), &attr, 1, NULL,
                             &op));
  return keel_function_node(all->function, op, "", &from, 1, &to, 1, &node);
}

#define CODES 65536 /* that a half has */

/* The value of each code of a type of 16 bits. */
static float *numbers_of(kd_dtype dtype) {
  float *table = malloc(CODES * sizeof *table);
  for (uint32_t code = 0; table && code < CODES; code++) {
    const uint16_t element = (uint16_t)code;
    uint64_t bits = 0;
    double number = 0;
    keel_float_decode(dtype, &element, &number, &bits);
    table[code] = (float)number;
  }
  return table;
}

static keel_status widen_constant(widening *all, uint32_t value,
                                  const keel_tensor *from, uint32_t *out_wide) {
  const keel_type *type = from->type;
  float **table = &all->tables[type->dtype == KD_BF16];
  size_t count = (size_t)type->elements;
  float *numbers = malloc(count * sizeof *numbers + 1);
  keel_tensor *tensor = NULL;
  const uint16_t *codes = from->data;
  if (!*table) *table = numbers_of(type->dtype);
  keel_status status =
      numbers && *table ? KD_OK : keel_no_memory(count * sizeof *numbers);
  for (size_t i = 0; status == KD_OK && i < count; i++)
    numbers[i] = (*table)[codes[i]];
  if (status == KD_OK)
    status = keel_tensor_create(all->function->context, KD_F32, type->rank,
                                type->dims, numbers, &tensor);
  free(numbers);
  if (status != KD_OK) return status;
  *out_wide = keel_function_constant(all->function,
                                     all->function->values[value].name, tensor);
  keel_tensor_release(tensor);
  return *out_wide == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
}

/* The same value as f32. */
static keel_status wide_of(widening *all, uint32_t value, uint32_t *out_wide) {
  if (has_wide(all, value)) {
    *out_wide = all->wide[value];
    return KD_OK;
  }
  const keel_tensor *constant = all->function->values[value].constant;
  if (constant && keel_tensor_host_data(constant)) {
    KEEL_TRY(widen_constant(all, value, constant, out_wide));
  } else {
    *out_wide = new_value(all, value);
    if (*out_wide == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    KEEL_TRY(add_cast(all, value, *out_wide, KD_F32));
  }
  if (value < all->values) all->wide[value] = *out_wide;
  return KD_OK;
}

/* ---- nodes ------------------------------------------------------------------------- */

/* Whether the types are known that decide it, one of them is a half, and for an op that
 * moves, what it reads is wide already. */
static bool can_widen(const widening *all, const keel_node *node) {
  bool moves = IS_ONE_OF(node, moving), any = false;
  if (!moves && !IS_ONE_OF(node, computing) && !IS_ONE_OF(node, heavy))
    return false;
  for (uint32_t i = 0; i < node->input_count; i++) {
    uint32_t value = node->inputs[i];
    if (value == KEEL_ABSENT || has_wide(all, value)) continue;
    if (!dtype_of(all, value)) return false;
    if (!is_half(all, value)) continue;
    if (moves && !all->function->values[value].constant) return false;
    any |= !moves;
  }
  for (uint32_t i = 0; i < node->input_count && !any; i++)
    any = has_wide(all, node->inputs[i]);
  return any;
}

static keel_status widen_node(widening *all, uint32_t index) {
  for (uint32_t i = 0; i < all->function->nodes[index].input_count; i++) {
    uint32_t value = all->function->nodes[index].inputs[i], wide = 0;
    if (value == KEEL_ABSENT || !is_half(all, value)) continue;
    KEEL_TRY(wide_of(all, value, &wide));
    all->function->nodes[index].inputs[i] = wide;
  }
  for (uint32_t i = 0; i < all->function->nodes[index].output_count; i++) {
    uint32_t value = all->function->nodes[index].outputs[i];
    if (value == KEEL_ABSENT || !is_half(all, value)) continue;
    kd_dtype dtype = dtype_of(all, value);
    uint32_t wide = new_value(all, value);
    if (wide == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    all->function->nodes[index].outputs[i] = wide;
    all->function->values[wide].producer = index;
    all->function->values[value].producer = KEEL_ABSENT;
    if (value < all->values) all->wide[value] = wide;
    KEEL_TRY(add_cast(all, wide, value, dtype));
  }
  return KD_OK;
}

/* ---- types ------------------------------------------------------------------------- */

/* The element type of a node's output, where its shape is not known. */
static kd_dtype output_dtype(const widening *all, const keel_node *node,
                             uint32_t output) {
  static const char *const all_alike[] = {"LSTM", "GRU", "RNN", "Split"};
  static const char *const second[] = {"Where"};
  uint32_t from = IS_ONE_OF(node, second);
  bool known = IS_ONE_OF(node, computing) || IS_ONE_OF(node, moving) ||
               IS_ONE_OF(node, heavy);
  if (is_one_of(node, (const char *const[]){"Cast"}, 1))
    return (kd_dtype)keel_attr_int(node->op, "to", KD_NONE);
  return known && node->input_count > from &&
                 (!output || IS_ONE_OF(node, all_alike))
             ? dtype_of(all, node->inputs[from])
             : KD_NONE;
}

static void find_dtypes(widening *all) {
  const keel_function *function = all->function;
  for (uint32_t i = 0; i < all->values; i++) {
    const keel_value_info *info = &function->values[i];
    const keel_type *type = info->constant ? info->constant->type : info->type;
    all->dtypes[i] = type ? type->dtype : KD_NONE; /* a sequence has none */
  }
  for (uint32_t i = 0; i < function->input_count; i++)
    if (!all->dtypes[function->inputs[i]] && function->input_ports)
      all->dtypes[function->inputs[i]] = function->input_ports[i].dtype;
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    for (uint32_t k = 0; k < node->output_count && !node->dead; k++) {
      uint32_t value = node->outputs[k];
      if (value != KEEL_ABSENT && !all->dtypes[value])
        all->dtypes[value] = output_dtype(all, node, k);
    }
  }
}

/* ---- the pass ---------------------------------------------------------------------- */

static bool widens(const keel_node *node, const keel_device *device) {
  const keel_device *where = node->device ? node->device : device;
  return !node->dead && where && (where->info.flags & KD_DEVICE_WIDENS);
}

static keel_status widen_all(widening *all, keel_device *device) {
  uint32_t count = all->function->node_count;
  bool any = false;
  for (uint32_t i = 0; i < count && !any; i++) {
    const keel_node *node = &all->function->nodes[i];
    any = widens(node, device) && IS_ONE_OF(node, heavy) && node->input_count &&
          is_half(all, node->inputs[0]);
  }
  for (uint32_t i = 0; i < count && any; i++)
    if (widens(&all->function->nodes[i], device) &&
        can_widen(all, &all->function->nodes[i]))
      KEEL_TRY(widen_node(all, i));
  if (!any) return KD_OK;
  KEEL_TRY(keel_function_sort(all->function));
  return keel_pass_prune(all->function); /* casts without a reader */
}

keel_status keel_pass_widen(keel_function *function, keel_device *device) {
  widening all = {.function = function, .values = function->value_count};
  all.wide = malloc((all.values + 1) * sizeof *all.wide);
  all.dtypes = malloc((all.values + 1) * sizeof *all.dtypes);
  keel_status status = all.wide && all.dtypes
                           ? KD_OK
                           : keel_no_memory(all.values * sizeof *all.wide);
  for (uint32_t i = 0; all.wide && i < all.values; i++)
    all.wide[i] = KEEL_ABSENT;
  if (status == KD_OK) {
    find_dtypes(&all);
    status = widen_all(&all, device);
  }
  free(all.wide);
  free(all.dtypes);
  free(all.tables[0]);
  free(all.tables[1]);
  return status;
}
