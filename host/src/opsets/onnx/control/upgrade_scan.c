/* upgrade_scan.c - Scan of opset 8: today's Scan over the batch, of a body with today's Scan of the
 * model's body. Where the sequences have lengths, the body cuts them off, and puts zeros behind
 * what comes out. */
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "opsets/text.h"

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

static uint32_t no_inputs(void *context, char sigil, uint32_t index) {
  (void)context;
  (void)sigil;
  (void)index;
  return KEEL_ABSENT;
}

/* Writes a text (opsets/text.h) into the item. */
static keel_status scan_text(batched *b, const char *text, ...) {
  keel_emit all = {.function = b->item, .node = {.name = b->draft->name}};
  const keel_text_of of = {.all = &all, .read = no_inputs};
  va_list arguments;
  va_start(arguments, text);
  keel_text_write(&of, text, arguments);
  va_end(arguments);
  return all.status;
}

/* The first steps of each sequence. How many steps are behind the item's length is what Split makes
 * of a sequence, which refuses a length that is less than 0 or more than there are steps. */
static keel_status cut_sequences(batched *b) {
  KEEL_TRY(scan_text(b,
                     "length = Reshape(%v, {1});"
                     "rest = dims(%v, 0, 1) - length;"
                     "%p = Concat[axis=0](length, rest);"
                     "%p = Concat[axis=0]({0}, rest)",
                     b->length, b->inputs[b->states], &b->parts, &b->behind));
  for (uint32_t i = b->states; i < b->states + b->scans; i++)
    KEEL_TRY(scan_text(b, "%p, rest = Split[axis=0](%v, %v)", &b->inputs[i],
                       b->inputs[i], b->parts));
  return KD_OK;
}

/* Zeros behind what a shorter sequence gave. */
static keel_status fill_up(batched *b) {
  for (uint32_t i = b->states; i < b->body->output_count; i++)
    KEEL_TRY(scan_text(b, "%p = Pad(%v, %v, _, {0})", &b->outputs[i],
                       b->outputs[i], b->behind));
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
        "takes lengths, or an input without a name in their place, and the "
        "inputs of its body, num_scan_inputs of them sequences");
  b->scans = (uint32_t)scans->i;
  b->states = taken - captures - b->scans;
  if (b->body->output_count < b->states)
    return upgrade_scan_bad(
        b, "its body returns fewer values than there are states");
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

static keel_status old_scan(keel_draft *draft) {
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

static const keel_op_upgrade upgrades[] = {
    {"Scan", 1, 9, old_scan},
};

const keel_op_table keel_ops_scan = {KEEL_TABLE_UPGRADES(upgrades)};
