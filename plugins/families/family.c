/* family.c - reading nodes, and putting plans together. */
#include "families/family.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "families/strided.h"

/* ---- reading -------------------------------------------------------------------- */

static kd_status family_read_tensor(fam_op *op, bool output, uint32_t index,
                                    fam_tensor *out) {
  const kd_node_table *read = op->host->node;
  kd_type type = {0};
  kd_status status = output ? read->output_type(op->node, index, &type)
                            : read->input_type(op->node, index, &type);
  memset(out, 0, sizeof *out);
  if (status == KD_NOT_FOUND) return KD_OK;
  if (status != KD_OK) return status;
  if (type.rank > KD_MAX_RANK)
    return op->host->fail(KD_UNIMPLEMENTED, "a shape is not known");
  out->dtype = type.dtype;
  out->rank = type.rank;
  out->count = 1;
  for (uint32_t i = 0; i < type.rank; i++) {
    if (type.dims[i] < 0)
      return op->host->fail(KD_UNIMPLEMENTED, "a shape is not known");
    out->dims[i] = type.dims[i];
    if (__builtin_mul_overflow(out->count, type.dims[i], &out->count))
      out->count = INT64_MAX;
  }
  for (uint32_t i = 0; i < type.rank; i++)
    if (!type.dims[i]) out->count = 0;
  if (out->count > INT32_MAX)
    return op->host->fail(
        KD_UNIMPLEMENTED,
        "a tensor has %lld elements, and 2^31 - 1 is the most",
        (long long)out->count);
  return KD_OK;
}

/* The shape of this launch: one node serves several where data decides. */
static void take_shape(const kd_tensor *from, fam_tensor *to) {
  if (to->dtype == KD_NONE) return;
  to->rank = from->rank;
  to->count = kd_elements(from);
  for (uint32_t i = 0; i < from->rank; i++)
    to->dims[i] = from->dims[i];
}

kd_status fam_read(fam_op *op, const kd_host *host, const kd_node *node,
                   const fam_row *row, const kd_launch *launch) {
  op->host = host;
  op->node = node;
  op->row = row;
  op->in_count = host->node->input_count(node);
  op->out_count = host->node->output_count(node);
  if (op->in_count > FAM_INPUTS || op->out_count > FAM_OUTPUTS)
    return host->fail(KD_UNIMPLEMENTED,
                      "%u inputs and %u outputs: %d and %d are the most",
                      op->in_count, op->out_count, FAM_INPUTS, FAM_OUTPUTS);
  for (uint32_t i = 0; i < op->in_count; i++) {
    kd_status status = family_read_tensor(op, false, i, &op->in[i]);
    if (status != KD_OK) return status;
    if (!op->in[i].dtype) continue;
    kd_tensor value;
    if (launch && fam_on_host(row, i))
      op->in[i].data = launch->inputs[i].data;
    else if (host->node->constant(node, i, &value) == KD_OK)
      op->in[i].data = value.data;
  }
  for (uint32_t i = 0; i < op->out_count; i++) {
    kd_status status = family_read_tensor(op, true, i, &op->out[i]);
    if (status != KD_OK) return status;
    if (launch) take_shape(&launch->outputs[i], &op->out[i]);
  }
  return KD_OK;
}

bool fam_knows_all(const fam_op *op) {
  for (uint32_t i = 0; i < op->in_count; i++)
    if (fam_has(op, i) && fam_on_host(op->row, i) && op->in[i].count &&
        !op->in[i].data)
      return false;
  return true;
}

int64_t fam_attr(const fam_op *op, const char *name, int64_t fallback) {
  return op->host->node->attr_int(op->node, name, fallback);
}

double fam_attr_real(const fam_op *op, const char *name, double fallback) {
  return (double)op->host->node->attr_float(op->node, name, (float)fallback);
}

bool fam_attr_is(const fam_op *op, const char *name, const char *fallback,
                 const char *value) {
  return !strcmp(op->host->node->attr_string(op->node, name, fallback), value);
}

const char *fam_rule(const fam_op *op, const char *attr, const char *fallback,
                     const fam_expression *rows) {
  while (rows->name && !fam_attr_is(op, attr, fallback, rows->name))
    rows++;
  return rows->text;
}

int64_t fam_attr_list(const fam_op *op, const char *name, int64_t *out,
                      int64_t room) {
  const int64_t *values = NULL;
  int64_t count = op->host->node->attr_ints(op->node, name, &values);
  for (int64_t i = 0; i < count && i < room; i++)
    out[i] = values[i];
  return count < room ? count : room;
}

bool fam_has(const fam_op *op, uint32_t input) {
  return input < op->in_count && op->in[input].dtype != KD_NONE;
}

double fam_host_real(const fam_tensor *tensor, int64_t i) {
  if (!tensor->data) return 0;
  switch (tensor->dtype) {
    case KD_F32:
      return (double)((const float *)tensor->data)[i];
    case KD_F64:
      return ((const double *)tensor->data)[i];
    case KD_I32:
      return ((const int32_t *)tensor->data)[i];
    case KD_I64:
      return (double)((const int64_t *)tensor->data)[i];
    case KD_U8:
    case KD_BOOL:
      return ((const uint8_t *)tensor->data)[i];
    case KD_I8:
      return ((const int8_t *)tensor->data)[i];
    case KD_U16:
      return ((const uint16_t *)tensor->data)[i];
    case KD_I16:
      return ((const int16_t *)tensor->data)[i];
    case KD_U32:
      return ((const uint32_t *)tensor->data)[i];
    case KD_U64:
      return (double)((const uint64_t *)tensor->data)[i];
    default:
      return 0;
  }
}

int64_t fam_host_ints(const fam_op *op, fam_plan *plan, uint32_t input,
                      int64_t *out, int64_t room) {
  if (!fam_has(op, input)) return 0;
  const fam_tensor *in = &op->in[input];
  if (in->count && !in->data) {
    fam_fail(op, plan, KD_INTERNAL, "input %u is not on the host", input);
    return -1;
  }
  for (int64_t i = 0; i < in->count && i < room; i++)
    out[i] = in->dtype == KD_I32 ? ((const int32_t *)in->data)[i]
                                 : ((const int64_t *)in->data)[i];
  return in->count < room ? in->count : room;
}

uint32_t fam_axis(const fam_op *op, fam_plan *plan, int64_t axis,
                  uint32_t rank) {
  int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
  if (at >= 0 && at < (int64_t)rank) return (uint32_t)at;
  fam_fail(op, plan, KD_INVALID_ARGUMENT, "axis %lld of a tensor of rank %u",
           (long long)axis, rank);
  return 0;
}

int64_t fam_product(const int64_t *dims, uint32_t from, uint32_t to) {
  int64_t result = 1;
  for (uint32_t i = from; i < to; i++)
    result *= dims[i];
  return result;
}

/* ---- types -------------------------------------------------------------------------- */

bool fam_is_float(kd_dtype dtype) {
  return (KD_TYPES_FLOAT & KD_TYPES(dtype)) != 0;
}

bool fam_is_signed(kd_dtype dtype) {
  return ((KD_TYPES_FLOAT | KD_TYPES_SIGNED) & KD_TYPES(dtype)) != 0;
}

kd_dtype fam_compute(kd_dtype dtype) {
  return dtype == KD_F16 || dtype == KD_BF16 ? KD_F32
         : dtype == KD_BOOL                  ? KD_U8
                                             : dtype;
}

bool fam_need_math(const fam_op *op, fam_plan *plan, kd_dtype compute) {
  if (compute != KD_F64 || plan->math64) return true;
  fam_fail(op, plan, KD_UNIMPLEMENTED,
           "of f64: the device has no such function");
  return false;
}

kd_dtype fam_bits(kd_dtype dtype) {
  switch (kd_dtype_size(dtype)) {
    case 1:
      return KD_U8;
    case 2:
      return KD_U16;
    case 4:
      return KD_U32;
    case 8:
      return KD_U64;
    default:
      return KD_C128;
  }
}

/* ---- plans ---------------------------------------------------------------------------- */

kd_status fam_fail(const fam_op *op, fam_plan *plan, kd_status status,
                   const char *format, ...) {
  char text[256];
  va_list args;
  if (plan->status != KD_OK) return plan->status;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  plan->status = op->host->fail_text(status, text);
  return plan->status;
}

kd_status fam_make(fam_plan *plan, const fam_op *op, const fam_row *row) {
  plan->host = op->host;
  row->plan(op, plan);
  return plan->status;
}

void fam_free(fam_plan *plan) {
  if (plan->passes) plan->host->release(plan->host, plan->passes);
  plan->passes = NULL;
  plan->count = plan->room = 0;
}

fam_pass *fam_begin(fam_plan *plan, const char *kernel) {
  if (plan->status != KD_OK) return &plan->sink;
  if (plan->count == plan->room) {
    uint32_t room = plan->room ? plan->room * 4 : 1;
    fam_pass *more = plan->host->allocate(plan->host, room * sizeof *more, 0);
    if (!more) {
      plan->status = plan->host->fail(KD_OUT_OF_MEMORY, "no memory for a plan");
      return &plan->sink;
    }
    if (plan->count) memcpy(more, plan->passes, plan->count * sizeof *more);
    if (plan->passes) plan->host->release(plan->host, plan->passes);
    plan->passes = more;
    plan->room = room;
  }
  fam_pass *pass = &plan->passes[plan->count++];
  memset(pass, 0, sizeof *pass);
  pass->kernel = kernel;
  return pass;
}

void fam_bind(fam_pass *pass, const char *name, int place, uint32_t index,
              kd_dtype dtype) {
  if (pass->buffer_count == FAM_BUFFERS) return;
  fam_buffer *buffer = &pass->buffers[pass->buffer_count++];
  snprintf(buffer->name, sizeof buffer->name, "%s", name);
  buffer->place = (uint8_t)place;
  buffer->index = (uint8_t)index;
  buffer->write = place != FAM_INPUT;
  buffer->dtype = dtype;
}

static void add_head(fam_pass *pass, const char *format, va_list args) {
  size_t room = sizeof pass->head - pass->head_size;
  int size = vsnprintf(pass->head + pass->head_size, room, format, args);
  if (size > 0)
    pass->head_size +=
        (uint32_t)((size_t)size < room ? (size_t)size : room - 1);
}

static void head(fam_pass *pass, const char *format, ...) KD_PRINTF(2, 3);
static void head(fam_pass *pass, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_head(pass, format, args);
  va_end(args);
}

void fam_define(fam_pass *pass, const char *name, const char *format, ...) {
  va_list args;
  head(pass, "#define %s ", name);
  va_start(args, format);
  add_head(pass, format, args);
  va_end(args);
  head(pass, "\n");
}

/* The next parameter is one that is no list's. */
static void add_single(fam_pass *pass) {
  if (pass->param_count < FAM_PARAMS)
    pass->single[pass->param_count / 32] |= 1u << pass->param_count % 32;
}

static bool add_param(fam_pass *pass, uint32_t bits) {
  if (pass->param_count == FAM_PARAMS) return false;
  pass->params[pass->param_count++] = bits;
  return true;
}

static void add_int(fam_plan *plan, fam_pass *pass, const char *name,
                    int64_t value) {
  if (value < INT32_MIN || value > INT32_MAX) {
    if (plan->status == KD_OK)
      plan->status = plan->host->fail(KD_UNIMPLEMENTED,
                                      "%s is %lld, and 32 bits are the most",
                                      name, (long long)value);
    value = 0;
  }
  if (!add_param(pass, (uint32_t)(int32_t)value) && plan->status == KD_OK)
    plan->status = plan->host->fail(KD_UNIMPLEMENTED, "too many dimensions");
}

void fam_int(fam_plan *plan, fam_pass *pass, const char *name, int64_t value) {
  head(pass, "#define %s ONE_PARAM(%u)\n", name, pass->param_count);
  add_single(pass);
  add_int(plan, pass, name, value);
}

void fam_ints(fam_plan *plan, fam_pass *pass, const char *name, int64_t count,
              const int64_t *values) {
  head(pass, "#define %s(i) PARAM(%u + (i))\n", name, pass->param_count);
  for (int64_t i = 0; i < count; i++)
    add_int(plan, pass, name, values[i]);
}

void fam_dims(fam_plan *plan, fam_pass *pass, const char *name, int64_t count,
              const int64_t *values) {
  fam_ints(plan, pass, name, count, values);
  for (int64_t i = count; i < 8 || (count > 8 && i < STRIDED_RANK); i++)
    add_int(plan, pass, name, 0);
}

void fam_real(fam_pass *pass, const char *name, double value) {
  float single = (float)value;
  uint32_t bits = 0;
  memcpy(&bits, &single, sizeof bits);
  head(pass, "#define %s AS_F32(ONE_PARAM(%u))\n", name, pass->param_count);
  add_single(pass);
  add_param(pass, bits);
}

void fam_share(fam_pass *pass, const char *name, kd_dtype dtype,
               uint32_t count) {
  if (pass->local_count == FAM_LOCALS) return;
  fam_local *local = &pass->locals[pass->local_count++];
  snprintf(local->name, sizeof local->name, "%s", name);
  local->dtype = dtype;
  local->count = count;
}

/* A GPU starts groups one after the other: with those of 64 it does little more than that
 * where items have a few bytes each. So they are larger where they still fill a GPU. */
void fam_items(fam_plan *plan, fam_pass *pass, int64_t items) {
  pass->group = plan->crowds && items >= 1 << 18 ? 256 : 64;
  pass->groups = ((uint64_t)items + pass->group - 1) / pass->group;
  fam_int(plan, pass, "ITEMS", items);
}

void fam_groups(fam_pass *pass, int64_t groups, uint32_t size) {
  pass->group = size;
  pass->groups = (uint64_t)groups;
}
