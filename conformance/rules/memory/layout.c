/* layout.c - layouts of the plugin's own: their sizes, the way there and back, what kernels
 * make of them. */
#include <stdlib.h>

#include "rules/ops/cases.h"
#include "rules/rules.h"

static const kd_dtype tried[] = {KD_F32, KD_F16, KD_F64, KD_I8, KD_I64, KD_C64};

/* Odd and even ones, with and without channels that come in eights. */
static const struct shape {
  uint32_t rank;
  int64_t dims[5];
} shapes[] = {{4, {1, 16, 5, 3}}, {4, {2, 48, 4, 4}},    {4, {1, 3, 9, 9}},
              {3, {2, 32, 7}},    {5, {1, 16, 2, 3, 5}}, {2, {3, 13}},
              {1, {21}},          {4, {1, 64, 1, 1}},    {4, {3, 24, 2, 17}}};

static void need_layouts(void) {
  kc_device();
  if (!kp.p.layouts) kc_unclaimed("layouts is NULL");
}

/* The type of a shape; false: not of this element type. */
static const keel_type *layout_type_of(kd_dtype dtype,
                                       const struct shape *shape) {
  const keel_type *type = NULL;
  if (keel_type_of(dtype, shape->rank, shape->dims, &type) != KD_OK)
    kc_stop("no type: %s", keel_message());
  return type;
}

/* Calls `check` with each layout of each type that there is, as a case of its own. */
static void each(void (*check)(const keel_type *type, uint32_t layout,
                               uint64_t size)) {
  uint32_t found = 0;
  need_layouts();
  for (uint32_t n = 0; n < KC_LAYOUTS; n++)
    for (size_t t = 0; t < KC_COUNT_OF(tried); t++)
      for (size_t s = 0; s < KC_COUNT_OF(shapes); s++) {
        const keel_type *type = layout_type_of(tried[t], &shapes[s]);
        uint64_t size = kc_layout_size(type, KD_LAYOUT_OWN + n);
        char text[64];
        keel_type_text(type, text, sizeof text);
        found += size > 0;
        if (size && kc_case("layout=%u,type=%s", n, text))
          check(type, KD_LAYOUT_OWN + n, size);
      }
  if (found) return;
  if (kc_case("any"))
    kc_untested("no type of those that are tried has a layout");
}

/* ---- sizes ------------------------------------------------------------------------- */

static void check_size(const keel_type *type, uint32_t layout, uint64_t size) {
  kc_check(size >= type->bytes,
           "a tensor of %llu bytes takes %llu bytes in layout %#x",
           (unsigned long long)type->bytes, (unsigned long long)size, layout);
  kc_check(size <= type->bytes * 4096 + (UINT64_C(1) << 24),
           "a tensor of %llu bytes takes %llu bytes in layout %#x",
           (unsigned long long)type->bytes, (unsigned long long)size, layout);
  for (int i = 0; i < 8; i++) {
    uint64_t again = kc_layout_size(type, layout);
    if (!kc_check(again == size, "size said %llu bytes, then %llu",
                  (unsigned long long)size, (unsigned long long)again))
      return;
  }
}

static void layout_size(void) {
  each(check_size);
}

/* ---- conversions --------------------------------------------------------------------- */

static kd_tensor tensor_of(const keel_type *type, kc_buffer *buffer,
                           uint32_t layout, uint64_t size) {
  kd_tensor tensor = kc_tensor_of(type, buffer, 0);
  tensor.layout = layout;
  tensor.size = size;
  return tensor;
}

/* There and back, enqueued one after the other in one stream: rows with all kinds of bits
 * come back as they were. */
static void check_trip(const keel_type *type, uint32_t layout, uint64_t size) {
  kc_random random = kc_seed();
  char *before = kc_take(type->bytes + 16), *after = kc_take(type->bytes + 16);
  char *junk = kc_take(size + 16);
  kc_pattern(before, type->bytes, kc_next(&random));
  kc_buffer *rows = kc_buffer_make(type->bytes), *laid = kc_buffer_make(size),
            *back = kc_buffer_make(type->bytes);
  memset(junk, 0xa5, size);
  kc_write(rows, 0, before, type->bytes);
  kc_write(laid, 0, junk, size);
  kc_write(back, 0, junk, type->bytes);
  const kd_tensor a = tensor_of(type, rows, KD_LAYOUT_ROW_MAJOR, type->bytes),
                  b = tensor_of(type, laid, layout, size),
                  c = tensor_of(type, back, KD_LAYOUT_ROW_MAJOR, type->bytes);
  kd_stream *stream = kc_stream_or_none();
  kc_ok(kc_reorder_in(kc_device(), stream, &a, &b), "layout.from_rows");
  kc_ok(kc_reorder_in(kc_device(), stream, &b, &c), "layout.to_rows");
  if (stream) kc_ok(kc_finish(stream), "the conversions");
  if (stream) kc_stream_free(stream);
  kc_read(back, 0, after, type->bytes);
  uint64_t first = kc_differs(before, after, type->bytes);
  kc_check(first == type->bytes, "byte %llu of %llu came back as another",
           (unsigned long long)first, (unsigned long long)type->bytes);
  kc_read(rows, 0, after, type->bytes);
  kc_check(kc_differs(before, after, type->bytes) == type->bytes,
           "from_rows changed its source");
  kc_check(kc_buffer_intact(laid) && kc_buffer_intact(back),
           "something was written outside the tensors");
  kc_buffer_free(rows);
  kc_buffer_free(laid);
  kc_buffer_free(back);
  free(before);
  free(after);
  free(junk);
}

static void layout_round_trip(void) {
  each(check_trip);
}

/* ---- numbers that it does not have ---------------------------------------------------- */

static void check_unknown(const keel_type *type, uint32_t layout) {
  kc_check(kc_layout_size(type, layout) == 0, "layout %#x has a size", layout);
  kc_buffer *rows = kc_buffer_make(type->bytes),
            *laid = kc_buffer_make(type->bytes);
  const kd_tensor a = tensor_of(type, rows, KD_LAYOUT_ROW_MAJOR, type->bytes),
                  b = tensor_of(type, laid, layout, type->bytes);
  kd_status status = kc_reorder(kc_device(), &a, &b);
  if (status == KD_OK)
    kc_check(false, "from_rows brings a tensor into layout %#x", layout);
  else
    kc_said(status, "from_rows");
  kc_check(status == KD_OK || status == KD_UNIMPLEMENTED,
           "from_rows into layout %#x returned %s", layout,
           kd_status_name(status));
  kc_buffer_free(rows);
  kc_buffer_free(laid);
}

static void layout_unknown(void) {
  static const uint32_t odd[] = {1,
                                 2,
                                 0x7fffffffu,
                                 KD_LAYOUT_OWN + KC_LAYOUTS,
                                 KD_LAYOUT_OWN + 12345,
                                 UINT32_MAX};
  need_layouts();
  for (size_t i = 0; i < KC_COUNT_OF(odd); i++)
    check_unknown(layout_type_of(KD_F32, &shapes[0]), odd[i]);
  bool last = false;
  for (uint32_t n = 0; n < KC_LAYOUTS; n++) { /* no gaps */
    bool any = false;
    for (size_t t = 0; t < KC_COUNT_OF(tried) && !any; t++)
      for (size_t s = 0; s < KC_COUNT_OF(shapes) && !any; s++)
        any = kc_layout_size(layout_type_of(tried[t], &shapes[s]),
                             KD_LAYOUT_OWN + n) > 0;
    kc_check(!any || !last, "there is layout %u, and not the one before", n);
    last |= !any;
  }
}

/* ---- what it prefers -------------------------------------------------------------------- */

/* Asks for all arguments, as the host does. */
static void layout_ask(kc_node *node, uint32_t *out_answers) {
  uint32_t n = node->node.input_count;
  kc_node_rows(node);
  node->node.layouts = node->layouts;
  for (uint32_t i = 0; i <= n; i++) {
    const keel_type *type = i < n ? node->in[i] : node->out[0];
    if (!type || (i < n && node->constants[i])) continue;
    uint32_t layout = KC_CALL(
        uint32_t, kp.l.preferred(kc_device(), &node->node, i),
        "layout.preferred(%s, %u)", node->op->schema->name, (unsigned)i);
    out_answers[i] = layout;
    if (layout && !kc_layout_size(type, layout)) {
      kc_check(false, "%s prefers argument %u in layout %#x, which has no size",
               node->op->schema->name, (unsigned)i, layout);
      layout = KD_LAYOUT_ROW_MAJOR;
    }
    if (i < n)
      node->layouts[i] = layout;
    else
      node->node.output_layout = layout;
  }
  kc_node_rows(node);
}

static void ask_often(kc_node *node) {
  uint32_t first[KC_PORTS + 1] = {0};
  uint64_t began = kc_now();
  layout_ask(node, first);
  for (int i = 0; i < 16; i++) {
    uint32_t again[KC_PORTS + 1] = {0};
    layout_ask(node, again);
    if (!kc_check(!memcmp(first, again, sizeof first),
                  "%s prefers other layouts when it is asked again",
                  node->op->schema->name))
      return;
  }
  uint64_t each_time = (kc_now() - began) / 17;
  kc_check((double)each_time < 20e6 * kc.factor,
           "preferred takes %llu microseconds for a node of %s",
           (unsigned long long)each_time / 1000, node->op->schema->name);
}

static void layout_preferred(void) {
  need_layouts();
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    if (!(def->flags & KD_KERNEL_OWN_LAYOUT) ||
        !kc_case("op=%s,number=%u", def->op, (unsigned)d))
      continue;
    for (uint32_t c = 0; c < kc_case_count(def->domain, def->op); c++) {
      kc_random random = kc_seed();
      kc_op_case one;
      if (!kc_case_make(def->domain, def->op, c, KD_F32, KC_PROBE_FULL, &random,
                        &one))
        continue;
      kc_node *node = kc_node_make(&one.op, NULL, 0);
      if (node) ask_often(node);
      kc_node_free(node);
      kc_case_free(&one);
    }
  }
}

static void layout_kernels(void) {
  need_layouts();
  kc_sweep_layouts();
}

/* ---- what lies side by side --------------------------------------------------------------- */

/* Gives all arguments the layout; false: not all can have it, or there is an outer dimension
 * of more than 1. */
static bool lay_side_by_side(kc_node *node, const kc_op *op, uint32_t layout) {
  const keel_type *out = node->out[0];
  int64_t axis = op->attrs[0].i;
  axis += axis < 0 ? out->rank : 0;
  for (int64_t i = 0; i < axis; i++)
    if (out->dims[i] != 1) return false;
  if (!kc_layout_size(out, layout)) return false;
  for (uint32_t i = 0; i < node->node.input_count; i++) {
    if (!kc_layout_size(node->in[i], layout)) return false;
    node->layouts[i] = layout;
  }
  node->node.layouts = node->layouts;
  node->node.output_layout = layout;
  return true;
}

/* What the host takes for the output: the inputs as they lie, one after the other. */
static void check_glued(const kc_run *run, const value *want) {
  const keel_type *type = run->node->out[0];
  uint64_t size = kc_layout_size(type, run->out[0].layout), at = 0;
  char *bytes = kc_take(size + 16), *rows = kc_take(type->bytes + 16);
  for (uint32_t i = 0; i < run->node->node.input_count; i++) {
    if (at + run->in_sizes[i] <= size)
      memcpy(bytes + at, run->in_bytes[i], run->in_sizes[i]);
    at += run->in_sizes[i];
  }
  if (kc_check(at == size, "the inputs take %llu bytes, the output %llu",
               (unsigned long long)at, (unsigned long long)size)) {
    kc_buffer *laid = kc_buffer_make(size), *back = kc_buffer_make(type->bytes);
    kc_write(laid, 0, bytes, size);
    const kd_tensor a = tensor_of(type, laid, run->out[0].layout, size),
                    b = tensor_of(type, back, KD_LAYOUT_ROW_MAJOR, type->bytes);
    kc_ok(kc_reorder(kc_device(), &a, &b), "layout.to_rows");
    kc_read(back, 0, bytes, type->bytes);
    value_store(want, rows);
    uint64_t first = kc_differs(rows, bytes, type->bytes);
    kc_check(first == type->bytes,
             "byte %llu of %llu of the inputs side by side is another than the"
             " output's",
             (unsigned long long)first, (unsigned long long)type->bytes);
    kc_buffer_free(laid);
    kc_buffer_free(back);
  }
  free(bytes);
  free(rows);
}

/* The kernel gives what the reference says, and so do its inputs without it. */
static void check_joined(const kd_kernel_def *def, const kc_op_case *one,
                         kc_node *node) {
  value *want[KC_PORTS] = {0};
  if (!kc_reference(&one->op, node, want)) return;
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  if (run) {
    numerics within = kc_numerics(def, want[0]->dtype);
    kc_ok(kc_run_now(run), "enqueue");
    value *got = kc_run_output(run, 0);
    if (got) kc_compare(want[0], got, &within, "Concat");
    value_free(got);
    check_glued(run, want[0]);
    kc_run_free(run);
  }
  kc_values_free(want, one->op.out_count);
}

static void try_joining(const kd_kernel_def *def, uint32_t number) {
  for (uint32_t n = 0; n < KC_LAYOUTS; n++)
    for (size_t t = 0; t < KC_COUNT_OF(tried); t++)
      for (uint32_t c = 0; c < kc_case_count(def->domain, def->op); c++) {
        kc_random random = kc_seed();
        kc_op_case one;
        if (!kc_case_make(def->domain, def->op, c, tried[t], KC_PROBE_FULL,
                          &random, &one))
          continue;
        kc_node *node = kc_node_make(&one.op, NULL, 0);
        if (node && kc_def_fits(def, node) &&
            lay_side_by_side(node, &one.op, KD_LAYOUT_OWN + n) &&
            kc_supports(def, node) == KD_OK &&
            kc_case("number=%u,layout=%u,dtype=%s,case=%u", (unsigned)number, n,
                    kd_dtype_name(tried[t]), c))
          check_joined(def, &one, node);
        kc_node_free(node);
        kc_case_free(&one);
      }
}

static void layout_adjoins(void) {
  bool any = false;
  need_layouts();
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    if (!(def->flags & KD_KERNEL_ADJOINS) || strcmp(def->op, "Concat") != 0)
      continue;
    any = true;
    try_joining(def, d);
  }
  if (!any) kc_unclaimed("no kernel has KD_KERNEL_ADJOINS");
}

#define RULE(id, check, flags, header, sentence, names, about) \
  KC_RULE(MUST, CORE, id, check, flags, header, sentence, names, about)

static const kc_rule rules[] = {
    RULE("layout.size", layout_size, KC_CASES, "layout.h",
         "at least as many as its elements take in row-major order",
         "kd_layout_table.size kd_tensor.layout kd_type.layout"
         " KD_LAYOUT_ROW_MAJOR KD_LAYOUT_OWN",
         "The host allocates what `size` says: too little, or another answer"
         " later, and the kernels write into what lies behind."),
    RULE("layout.round-trip", layout_round_trip, KC_CASES, "layout.h",
         "No element's bits change, not even those of a NaN",
         "kd_layout_table.from_rows kd_layout_table.to_rows",
         "What a model gives is what came back to rows: a lost tail or a NaN"
         " that became another is a wrong result."),
    RULE("layout.unknown", layout_unknown, 0, "layout.h",
         "numbered from KD_LAYOUT_OWN without gaps",
         "kd_layout_table.size kd_layout_table.from_rows KD_UNIMPLEMENTED",
         "A program that was planned for another device names a layout that"
         " this one has not: the host asks `size`, and takes rows."),
    RULE("layout.preferred", layout_preferred, KC_CASES, "layout.h",
         "equal nodes get equal answers", "kd_layout_table.preferred",
         "Two plans of one program, or a plan and the file of it, would lay"
         " their tensors in different ways."),
    RULE("layout.kernels", layout_kernels, KC_CASES, "kernel.h",
         "each input has the layout that its kd_type and kd_tensor state",
         "KD_KERNEL_OWN_LAYOUT KD_KERNEL_LAYOUT_AGNOSTIC kd_tensor.size",
         "A kernel in a layout of the plugin's own computes what it does in"
         " rows: the same reference judges both."),
    RULE("layout.adjoins", layout_adjoins, KC_CASES, "kernel.h",
         "The host may then place the inputs directly in the output, and skip "
         "the launch",
         "KD_KERNEL_ADJOINS",
         "What is made where a Concat would have it is read as its output:"
         " gaps, or blocks that are shared, give other elements."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(layout_size_drifts, "layout.size", "the size of a layout changes from call to call"),
    DEFECT(layout_tail, "layout.round-trip", "the last element does not come back to rows"),
    DEFECT(layout_any, "layout.unknown", "any number is a layout"),
    DEFECT(layout_flips, "layout.preferred", "each third answer is another one"),
    DEFECT(layout_ignored, "layout.kernels", "an elementwise kernel takes padded rows for packed ones"),
    DEFECT(layout_gaps, "layout.adjoins", "a Concat of padded rows is said to leave no gaps"),
};
/* clang-format on */

KC_AREA(layout, "Layouts of the plugin's own");
