/* control.c - calls, branches and loops. */
#include "frontends/stablehlo/lower.h"

/* ---- values of ops with bodies -------------------------------------------------------- */

/* A body's ports: the real part of each value, and behind it the imaginary one of those that
 * are complex. */
static uint32_t port_count(const vhlo_type *const *types, uint32_t count) {
  uint32_t ports = count;
  for (uint32_t i = 0; i < count; i++)
    ports += hlo_is_complex(types[i]->dtype);
  return ports;
}

static void to_ports(const vhlo_type *const *types, const hlo_values *values,
                     keel_value *ports) {
  for (uint32_t i = 0; i < values->count; i++) {
    *ports++ = values->real[i];
    if (hlo_is_complex(types[i]->dtype)) *ports++ = values->imaginary[i];
  }
}

static void from_ports(const vhlo_type *const *types, const keel_value *ports,
                       const hlo_values *values) {
  for (uint32_t i = 0; i < values->count; i++) {
    values->real[i] = *ports++;
    if (hlo_is_complex(types[i]->dtype)) values->imaginary[i] = *ports++;
  }
}

/* Makes values the outputs of a body. */
static keel_status control_add_outputs(keel_builder *body,
                                       const vhlo_type *const *types,
                                       const hlo_values *values) {
  for (uint32_t i = 0; i < values->count; i++) {
    KEEL_TRY(keel_builder_output(body, "", values->real[i]));
    if (hlo_is_complex(types[i]->dtype))
      KEEL_TRY(keel_builder_output(body, "", values->imaginary[i]));
  }
  return KD_OK;
}

/* ---- functions ------------------------------------------------------------------------ */

keel_status hlo_call_op(hlo *h, const hlo_op *op) {
  const char *name = "";
  KEEL_TRY(vhlo_string(&h->v, op->raw, "callee", &name));
  return hlo_call(h, op, name);
}

/* Composites that are ops of ONNX: those of JAX's CHLO. */
static const char *const composites[][2] = {
    {"chlo.acos", "Acos"},   {"chlo.acosh", "Acosh"}, {"chlo.asin", "Asin"},
    {"chlo.asinh", "Asinh"}, {"chlo.atan", "Atan"},   {"chlo.atanh", "Atanh"},
    {"chlo.cosh", "Cosh"},   {"chlo.erf", "Erf"},     {"chlo.sinh", "Sinh"},
};

/* Any other composite is its decomposition, a function of the file. */
keel_status hlo_composite(hlo *h, const hlo_op *op) {
  const char *name = "", *decomposition = "";
  KEEL_TRY(vhlo_string(&h->v, op->raw, "name", &name));
  KEEL_TRY(vhlo_string(&h->v, op->raw, "decomposition", &decomposition));
  for (size_t i = 0; i < KEEL_COUNT_OF(composites); i++) {
    if (strcmp(name, composites[i][0]) != 0 || op->input_count != 1 ||
        op->output_count != 1 || !hlo_is_float(op->in_types[0]->dtype))
      continue;
    op->out[0] = HLO(h, composites[i][1], op->in[0]);
    return KD_OK;
  }
  return hlo_call(h, op, decomposition);
}

/* Those that only say where a value is to be are that value on one device. */
keel_status hlo_custom_call(hlo *h, const hlo_op *op) {
  static const char *const identities[] = {"Sharding", "LayoutConstraint",
                                           "annotate_device_placement"};
  const char *name = "";
  KEEL_TRY(vhlo_string(&h->v, op->raw, "call_target_name", &name));
  for (size_t i = 0; i < KEEL_COUNT_OF(identities); i++)
    if (!strcmp(name, identities[i])) return hlo_identity(h, op);
  return hlo_refuse(h, op, "its target \"%s\" is code of another runtime",
                    name);
}

/* ---- branches ------------------------------------------------------------------------- */

static keel_status branch(hlo *h, const hlo_op *op, const bytecode_block *block,
                          const char *name, keel_builder **out_body) {
  uint32_t count = op->output_count;
  keel_value *room = calloc(2 * (size_t)count + 1, sizeof *room);
  if (!room) return keel_no_memory(count);
  const hlo_values none = {.count = 0}, values = {room, room + count, count};
  keel_status status = hlo_enter(h, name, out_body);
  if (status == KD_OK) {
    status = hlo_block_with(h, block, &none, &values);
    if (status == KD_OK)
      status = control_add_outputs(*out_body, op->out_types, &values);
    hlo_leave(h);
  }
  free(room);
  return status;
}

static keel_status control_choose(hlo *h, const hlo_op *op,
                                  keel_value condition, keel_builder *then,
                                  keel_builder *other) {
  const keel_attr attrs[] = {KEEL_BODY("then_branch", then),
                             KEEL_BODY("else_branch", other)};
  const hlo_values out = {op->out, op->out_imag, op->output_count};
  uint32_t count = port_count(op->out_types, op->output_count);
  keel_value *ports = calloc((size_t)count + 1, sizeof *ports);
  if (!ports) return keel_no_memory(count);
  keel_status status =
      keel_builder_op_n(h->at, "If", attrs, 2, &condition, 1, ports, count);
  from_ports(op->out_types, ports, &out);
  free(ports);
  return status;
}

keel_status hlo_if(hlo *h, const hlo_op *op) {
  keel_builder *then = NULL, *other = NULL;
  if (op->input_count != 1 || op->raw->region_count != 2 || !op->output_count)
    return hlo_wrong(h, op, "it has %u branches and %u results",
                     (unsigned)op->raw->region_count,
                     (unsigned)op->output_count);
  keel_status status = branch(h, op, &op->raw->regions[0], "then", &then);
  if (status == KD_OK)
    status = branch(h, op, &op->raw->regions[1], "else", &other);
  if (status == KD_OK) status = control_choose(h, op, op->in[0], then, other);
  keel_builder_destroy(then);
  keel_builder_destroy(other);
  return status;
}

static keel_status choose_from(hlo *h, const hlo_op *op, keel_value index,
                               uint32_t first);

/* Branches `first` and behind, in a body. */
static keel_status others(hlo *h, const hlo_op *op, keel_value index,
                          uint32_t first, keel_builder **out_body) {
  KEEL_TRY(hlo_enter(h, "others", out_body));
  keel_status status =
      choose_from(h, op, keel_builder_capture(*out_body, index), first);
  const hlo_values out = {op->out, op->out_imag, op->output_count};
  if (status == KD_OK)
    status = control_add_outputs(*out_body, op->out_types, &out);
  hlo_leave(h);
  return status;
}

/* An index out of bounds means the last branch. */
static keel_status choose_from(hlo *h, const hlo_op *op, keel_value index,
                               uint32_t first) {
  const bytecode_op *raw = op->raw;
  keel_builder *then = NULL, *other = NULL;
  keel_value is = HLO(h, "Equal", index, hlo_number(h, KD_I32, first));
  keel_status status = branch(h, op, &raw->regions[first], "case", &then);
  if (status == KD_OK)
    status = first + 2 < raw->region_count
                 ? others(h, op, index, first + 1, &other)
                 : branch(h, op, &raw->regions[first + 1], "case", &other);
  if (status == KD_OK) status = control_choose(h, op, is, then, other);
  keel_builder_destroy(then);
  keel_builder_destroy(other);
  return status;
}

keel_status hlo_case(hlo *h, const hlo_op *op) {
  const bytecode_op *raw = op->raw;
  if (op->input_count != 1 || !raw->region_count || !op->output_count ||
      op->in_types[0]->dtype != KD_I32)
    return hlo_wrong(h, op, "it has %u branches and %u results",
                     (unsigned)raw->region_count, (unsigned)op->output_count);
  const hlo_values none = {.count = 0};
  const hlo_values out = {op->out, op->out_imag, op->output_count};
  if (raw->region_count == 1)
    return hlo_block_with(h, &raw->regions[0], &none, &out);
  return choose_from(h, op, op->in[0], 0);
}

/* ---- loops ------------------------------------------------------------------------------ */

/* Conditions are written out twice, so those in one another are bounded. */
#define CONDITIONS_MOST 3

/* The inputs of a loop's body. */
static void control_add_inputs(hlo *h, const hlo_op *op,
                               const hlo_values *values) {
  for (uint32_t i = 0; i < values->count; i++) {
    const vhlo_type *type = op->in_types[i];
    kd_dtype dtype = hlo_part_type(type->dtype);
    values->real[i] =
        keel_builder_input(h->at, "", dtype, type->rank, type->dims);
    values->imaginary[i] =
        hlo_is_complex(type->dtype)
            ? keel_builder_input(h->at, "", dtype, type->rank, type->dims)
            : KEEL_ABSENT;
  }
}

/* A region of a loop, as a body with an input for each carried value; it gives one flag, or
 * these. */
static keel_status loop_body(hlo *h, const hlo_op *op,
                             const bytecode_block *block, const char *name,
                             bool flag, keel_builder **out_body) {
  uint32_t count = op->input_count;
  keel_value *room = calloc(4 * (size_t)count, sizeof *room);
  if (!room) return keel_no_memory(count);
  const hlo_values in = {room, room + count, count};
  const hlo_values out = {room + 2 * count, flag ? NULL : room + 3 * count,
                          flag ? 1 : count};
  keel_status status = hlo_enter(h, name, out_body);
  if (status == KD_OK) {
    control_add_inputs(h, op, &in);
    status = hlo_block_with(h, block, &in, &out);
    if (status == KD_OK)
      status = flag ? keel_builder_output(h->at, "", out.real[0])
                    : control_add_outputs(h->at, op->in_types, &out);
    hlo_leave(h);
  }
  free(room);
  return status;
}

static keel_status add_loop(hlo *h, const hlo_op *op, keel_builder *condition,
                            keel_builder *body) {
  const hlo_values in = {op->in, op->in_imag, op->input_count};
  const hlo_values out = {op->out, op->out_imag, op->output_count};
  uint32_t count = port_count(op->in_types, op->input_count);
  keel_value *ports = calloc(2 * (size_t)count, sizeof *ports);
  if (!ports) return keel_no_memory(count);
  to_ports(op->in_types, &in, ports);
  keel_status status =
      keel_builder_while(h->at, condition, body, ports, count, ports + count);
  from_ports(op->out_types, ports + count, &out);
  free(ports);
  return status;
}

/* The values that go round keep their types. */
static keel_status check_loop(const hlo *h, const hlo_op *op) {
  if (op->raw->region_count != 2 || op->input_count != op->output_count ||
      !op->input_count)
    return hlo_wrong(h, op, "it has %u regions, %u inputs and %u results",
                     (unsigned)op->raw->region_count, (unsigned)op->input_count,
                     (unsigned)op->output_count);
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->in_types[i]->dtype != op->out_types[i]->dtype)
      return hlo_wrong(h, op, "value %u changes its type", (unsigned)i);
  if (h->conditions == CONDITIONS_MOST)
    return hlo_refuse(h, op, "conditions with loops nested more than %u deep",
                      CONDITIONS_MOST);
  return KD_OK;
}

keel_status hlo_while(hlo *h, const hlo_op *op) {
  keel_builder *condition = NULL, *body = NULL;
  KEEL_TRY(check_loop(h, op));
  h->conditions++;
  keel_status status =
      loop_body(h, op, &op->raw->regions[0], "condition", true, &condition);
  h->conditions--;
  if (status == KD_OK)
    status = loop_body(h, op, &op->raw->regions[1], "body", false, &body);
  if (status == KD_OK) status = add_loop(h, op, condition, body);
  keel_builder_destroy(condition);
  keel_builder_destroy(body);
  return status;
}
