/* upgrade_scan.c - Scan of opset 8: today's Scan over the batch, of a body with today's Scan of the
 * model's body. Where the sequences have lengths, the body cuts them off, and puts zeros behind
 * what comes out. */
#include "opsets/onnx/upgrade.h"

typedef struct batched {
  keel_draft *draft;
  keel_function *body; /* the model's */
  keel_function *item; /* what runs it for one of the batch */
  uint32_t states, scans;
  bool lengths;
  uint32_t length, parts, behind; /* values; without lengths there are none */
  uint32_t *inputs, *outputs;     /* values of the inner Scan, captures last */
} batched;

static keel_status upgrade_scan_bad(const batched *b, const char *what) {
  const keel_draft *draft = b->draft;
  return keel_fail(KD_DATA_LOSS, "%s: node \"%s\" (Scan-8): %s", draft->path,
                   draft->name, what);
}

/* ---- the body of the batch -------------------------------------------------- */

static keel_status upgrade_scan_add_input(batched *b, uint32_t *out_value) {
  *out_value = keel_function_value(b->item, "");
  return *out_value == KEEL_ABSENT
             ? KD_OUT_OF_MEMORY
             : keel_function_input(b->item, *out_value, NULL);
}

static keel_status add_int(batched *b, int64_t number, uint32_t *out_value) {
  const int64_t one = 1;
  keel_tensor *tensor = NULL;
  KEEL_TRY(
      keel_tensor_create(b->item->context, KD_I64, 1, &one, &number, &tensor));
  *out_value = keel_function_constant(b->item, "", tensor);
  keel_tensor_release(tensor);
  return *out_value == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
}

static keel_status add_op(batched *b, const char *name, const keel_attr *attrs,
                          uint32_t attr_count, const uint32_t *inputs,
                          uint32_t count, uint32_t *out_value) {
  keel_opdef *op = NULL;
  uint32_t value = keel_function_value(b->item, "");
  if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  KEEL_TRY(keel_opdef_create(b->item->context, keel_schema_find("", name),
                             attrs, attr_count, NULL, &op));
  KEEL_TRY(keel_function_node(b->item, op, b->draft->name, inputs, count,
                              &value, 1, NULL));
  *out_value = value; /* which may be one of the inputs */
  return KD_OK;
}

/* The item's length, and how many steps are behind it: what Split makes of a sequence, which
 * refuses a length that is less than 0 or more than there are steps. */
static keel_status read_length(batched *b) {
  const keel_attr first[] = {KEEL_INT("start", 0), KEEL_INT("end", 1)};
  const keel_attr axis = KEEL_INT("axis", 0);
  uint32_t all = 0, zero = 0, one = 0, length = 0, rest = 0;
  KEEL_TRY(add_int(b, 0, &zero));
  KEEL_TRY(add_int(b, 1, &one));
  KEEL_TRY(add_op(b, "Reshape", NULL, 0, (const uint32_t[]){b->length, one}, 2,
                  &length));
  KEEL_TRY(add_op(b, "Shape", first, 2, &b->inputs[b->states], 1, &all));
  KEEL_TRY(
      add_op(b, "Sub", NULL, 0, (const uint32_t[]){all, length}, 2, &rest));
  KEEL_TRY(add_op(b, "Concat", &axis, 1, (const uint32_t[]){length, rest}, 2,
                  &b->parts));
  return add_op(b, "Concat", &axis, 1, (const uint32_t[]){zero, rest}, 2,
                &b->behind);
}

/* The first steps of each sequence. */
static keel_status cut_sequences(batched *b) {
  KEEL_TRY(read_length(b));
  for (uint32_t i = b->states; i < b->states + b->scans; i++) {
    const keel_attr axis = KEEL_INT("axis", 0);
    const uint32_t inputs[] = {b->inputs[i], b->parts};
    uint32_t halves[] = {keel_function_value(b->item, ""),
                         keel_function_value(b->item, "")};
    keel_opdef *op = NULL;
    if (halves[0] == KEEL_ABSENT || halves[1] == KEEL_ABSENT)
      return KD_OUT_OF_MEMORY;
    KEEL_TRY(keel_opdef_create(b->item->context, keel_schema_find("", "Split"),
                               &axis, 1, NULL, &op));
    KEEL_TRY(keel_function_node(b->item, op, b->draft->name, inputs, 2, halves,
                                2, NULL));
    b->inputs[i] = halves[0];
  }
  return KD_OK;
}

/* Zeros behind what a shorter sequence gave. */
static keel_status fill_up(batched *b) {
  uint32_t zero = 0;
  KEEL_TRY(add_int(b, 0, &zero));
  for (uint32_t i = b->states; i < b->body->output_count; i++) {
    const uint32_t inputs[] = {b->outputs[i], b->behind, KEEL_ABSENT, zero};
    KEEL_TRY(add_op(b, "Pad", NULL, 0, inputs, 4, &b->outputs[i]));
  }
  return KD_OK;
}

/* The attributes of today's Scan of `scans` inputs, with their directions unless that is NULL. */
static keel_status scan_op(batched *b, keel_function *body, uint32_t scans,
                           const keel_attr *directions, keel_opdef **out_op) {
  keel_attr attrs[3] = {{.name = "body", .kind = KD_ATTR_GRAPH},
                        KEEL_INT("num_scan_inputs", scans)};
  keel_function *graphs[3] = {body};
  if (directions) {
    attrs[2] = *directions;
    attrs[2].name = "scan_input_directions";
  }
  return keel_opdef_create(b->draft->function->context,
                           keel_schema_find("", "Scan"), attrs,
                           directions ? 3 : 2, graphs, out_op);
}

static keel_status add_inner(batched *b, const keel_attr *directions) {
  keel_opdef *op = NULL;
  for (uint32_t i = 0; i < b->body->output_count; i++) {
    b->outputs[i] = keel_function_value(b->item, "");
    if (b->outputs[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  }
  KEEL_TRY(scan_op(b, b->body, b->scans, directions, &op));
  return keel_function_node(b->item, op, b->draft->name, b->inputs,
                            b->body->input_count, b->outputs,
                            b->body->output_count, NULL);
}

static keel_status make_item(batched *b, const keel_attr *directions) {
  keel_function *around = b->draft->function;
  KEEL_TRY(keel_function_create(around->context, around->arena, &around->next,
                                "item", &b->item));
  if (b->lengths) KEEL_TRY(upgrade_scan_add_input(b, &b->length));
  for (uint32_t i = 0; i < b->body->input_count; i++)
    KEEL_TRY(upgrade_scan_add_input(b, &b->inputs[i]));
  b->item->capture_count = b->body->capture_count;
  if (b->lengths) KEEL_TRY(cut_sequences(b));
  KEEL_TRY(add_inner(b, directions));
  if (b->lengths) KEEL_TRY(fill_up(b));
  for (uint32_t i = 0; i < b->body->output_count; i++)
    KEEL_TRY(keel_function_output(b->item, b->outputs[i], NULL));
  KEEL_TRY(keel_function_sort(b->item));
  return keel_function_types(b->item);
}

/* ---- the node ---------------------------------------------------------------- */

static const keel_attr *upgrade_scan_find(const keel_draft *draft,
                                          const char *name, uint32_t kind) {
  for (uint32_t i = 0; i < draft->attr_count; i++)
    if (!strcmp(draft->attrs[i].name, name) && draft->attrs[i].kind == kind)
      return &draft->attrs[i];
  return NULL;
}

/* Others, which may hold tensors, would be lost. */
static keel_status check_attrs(const batched *b) {
  for (uint32_t i = 0; i < b->draft->attr_count; i++) {
    const char *name = b->draft->attrs[i].name;
    if (strcmp(name, "body") != 0 && strcmp(name, "num_scan_inputs") != 0 &&
        strcmp(name, "directions") != 0)
      return keel_fail(KD_UNIMPLEMENTED,
                       "%s: node \"%s\" (Scan-8): attribute \"%s\" is not"
                       " supported",
                       b->draft->path, b->draft->name, name);
    if (b->draft->attrs[i].kind == KD_ATTR_TENSOR)
      return upgrade_scan_bad(b, "an attribute is a tensor and should not be");
  }
  return KD_OK;
}

/* Its inputs are the lengths, which may be absent, states, sequences, and what the body
 * captures. */
static keel_status upgrade_scan_read_node(batched *b) {
  const keel_draft *draft = b->draft;
  const keel_attr *body = upgrade_scan_find(draft, "body", KD_ATTR_GRAPH);
  const keel_attr *scans =
      upgrade_scan_find(draft, "num_scan_inputs", KD_ATTR_INT);
  b->body = body ? draft->graphs[body - draft->attrs] : NULL;
  if (!b->body || !scans)
    return upgrade_scan_bad(b, "needs body and num_scan_inputs");
  uint32_t taken = b->body->input_count, captures = b->body->capture_count;
  if (scans->i < 1 || draft->input_count != taken + 1 ||
      scans->i > (int64_t)(taken - captures))
    return upgrade_scan_bad(
        b,
        "takes lengths, or an input without a name in their place,"
        " and what its body does, num_scan_inputs of them"
        " sequences");
  b->scans = (uint32_t)scans->i;
  b->states = taken - captures - b->scans;
  if (b->body->output_count < b->states)
    return upgrade_scan_bad(
        b, "its body gives fewer values than there are states");
  b->lengths = draft->inputs[0] != KEEL_ABSENT;
  for (uint32_t i = 1; i < draft->input_count; i++)
    if (draft->inputs[i] == KEEL_ABSENT)
      return upgrade_scan_bad(b, "an input is missing");
  keel_arena *arena = draft->function->arena;
  b->inputs = keel_arena_take(arena, (taken + 1) * sizeof *b->inputs);
  b->outputs =
      keel_arena_take(arena, (b->body->output_count + 1) * sizeof *b->outputs);
  return b->inputs && b->outputs ? KD_OK : KD_OUT_OF_MEMORY;
}

keel_status keel_upgrade_scan(keel_draft *draft) {
  batched b = {.draft = draft};
  KEEL_TRY(check_attrs(&b));
  KEEL_TRY(upgrade_scan_read_node(&b));
  KEEL_TRY(make_item(&b, upgrade_scan_find(draft, "directions", KD_ATTR_INTS)));
  if (!b.lengths) {
    draft->input_count--;
    memmove(draft->inputs, draft->inputs + 1,
            draft->input_count * sizeof *draft->inputs);
  }
  draft->attr_count = 2;
  draft->attrs[0] = (keel_attr){.name = "body", .kind = KD_ATTR_GRAPH};
  draft->attrs[1] =
      (keel_attr)KEEL_INT("num_scan_inputs", b.lengths + b.states + b.scans);
  draft->graphs[0] = b.item;
  draft->graphs[1] = NULL;
  return KD_OK;
}
