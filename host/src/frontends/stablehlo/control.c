/* control.c - calls, branches and loops. */
#include "frontends/stablehlo/lower.h"

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

/* What another is made of is a function of the file. */
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
  keel_value *values = calloc((size_t)op->output_count + 1, sizeof *values);
  if (!values) return keel_no_memory(op->output_count);
  keel_status status = hlo_enter(h, name, out_body);
  if (status == KD_OK) {
    status = hlo_block_with(h, block, NULL, 0, op->output_count, values);
    for (uint32_t i = 0; i < op->output_count && status == KD_OK; i++)
      status = keel_builder_output(*out_body, "", values[i]);
    hlo_leave(h);
  }
  free(values);
  return status;
}

/* Branch `first` where the condition of it holds, else those behind it. */
static keel_status choose(hlo *h, const hlo_op *op, keel_value condition,
                          keel_builder *then, keel_builder *other) {
  const keel_attr attrs[] = {KEEL_BODY("then_branch", then),
                             KEEL_BODY("else_branch", other)};
  return keel_builder_op_n(h->at, "If", attrs, 2, &condition, 1, op->out,
                           op->output_count);
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
  if (status == KD_OK) status = choose(h, op, op->in[0], then, other);
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
  for (uint32_t i = 0; i < op->output_count && status == KD_OK; i++)
    status = keel_builder_output(*out_body, "", op->out[i]);
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
  if (status == KD_OK) status = choose(h, op, is, then, other);
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
  if (raw->region_count == 1)
    return hlo_block_with(h, &raw->regions[0], NULL, 0, op->output_count,
                          op->out);
  return choose_from(h, op, op->in[0], 0);
}

/* ---- loops ------------------------------------------------------------------------------ */

/* A region of a loop, as a body with an input for each carried value. */
static keel_status loop_body(hlo *h, const hlo_op *op,
                             const bytecode_block *block, const char *name,
                             uint32_t count, keel_builder **out_body) {
  size_t room = (size_t)op->input_count + count;
  keel_value *values = calloc(room + 1, sizeof *values);
  if (!values) return keel_no_memory(room);
  keel_status status = hlo_enter(h, name, out_body);
  if (status == KD_OK) {
    for (uint32_t i = 0; i < op->input_count; i++)
      values[i] =
          keel_builder_input(h->at, "", op->in_types[i]->dtype,
                             op->in_types[i]->rank, op->in_types[i]->dims);
    status = hlo_block_with(h, block, values, op->input_count, count,
                            values + op->input_count);
    for (uint32_t i = 0; i < count && status == KD_OK; i++)
      status = keel_builder_output(h->at, "", values[op->input_count + i]);
    hlo_leave(h);
  }
  free(values);
  return status;
}

/* Conditions are written out twice, so those in one another are bounded. */
#define CONDITIONS_MOST 3

keel_status hlo_while(hlo *h, const hlo_op *op) {
  keel_builder *condition = NULL, *body = NULL;
  if (op->raw->region_count != 2 || op->input_count != op->output_count ||
      !op->input_count)
    return hlo_wrong(h, op, "it has %u regions, %u inputs and %u results",
                     (unsigned)op->raw->region_count, (unsigned)op->input_count,
                     (unsigned)op->output_count);
  if (h->conditions == CONDITIONS_MOST)
    return hlo_refuse(h, op, "conditions with loops nested more than %u deep",
                      CONDITIONS_MOST);
  h->conditions++;
  keel_status status =
      loop_body(h, op, &op->raw->regions[0], "condition", 1, &condition);
  h->conditions--;
  if (status == KD_OK)
    status =
        loop_body(h, op, &op->raw->regions[1], "body", op->input_count, &body);
  if (status == KD_OK)
    status = keel_builder_while(h->at, condition, body, op->in, op->input_count,
                                op->out);
  keel_builder_destroy(condition);
  keel_builder_destroy(body);
  return status;
}
