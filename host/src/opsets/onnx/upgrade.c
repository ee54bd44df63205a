/* upgrade.c - upgrades nodes of older opsets; nodes of opsets that Keel does not know are refused.
 *
 * ONNX's Changelog.md lists the changes, op by op and version by version; most versions only allow
 * more types. The other changes are here: an attribute that became an input, a default that
 * changed, a name that was dropped. */
#include "opsets/onnx/upgrade.h"
#include "ops/vendor.h"
#include "opsets/text.h"
#include "program/draft.h"

/* ---- helpers -------------------------------------------------------------- */

static keel_status upgrade_bad(const keel_draft *draft, keel_status status,
                               const char *what) {
  return keel_fail(status, "%s: node \"%s\" (%s-%lld): %s", draft->path,
                   draft->name, draft->op, (long long)draft->opset, what);
}

static int attr_index(const keel_draft *draft, const char *name) {
  for (uint32_t i = 0; i < draft->attr_count; i++)
    if (!strcmp(draft->attrs[i].name, name)) return (int)i;
  return -1;
}

static keel_attr *attr_of(keel_draft *draft, const char *name, uint32_t kind) {
  int at = attr_index(draft, name);
  return at >= 0 && draft->attrs[at].kind == kind ? &draft->attrs[at] : NULL;
}

static void drop_attr(keel_draft *draft, const char *name) {
  int at = attr_index(draft, name);
  if (at < 0) return;
  if (draft->attrs[at].kind == KD_ATTR_TENSOR)
    keel_tensor_release(draft->attrs[at].tensor);
  draft->attr_count--;
  for (uint32_t i = (uint32_t)at; i < draft->attr_count; i++) {
    draft->attrs[i] = draft->attrs[i + 1];
    draft->graphs[i] = draft->graphs[i + 1];
  }
}

static void drop_attrs(keel_draft *draft) {
  while (draft->attr_count)
    drop_attr(draft, draft->attrs[draft->attr_count - 1].name);
}

static void set_int(keel_draft *draft, const char *name, int64_t value) {
  drop_attr(draft, name);
  if (draft->attr_count < KEEL_DRAFT_ATTRS)
    draft->attrs[draft->attr_count++] = (keel_attr)KEEL_INT(name, value);
}

static void set_string(keel_draft *draft, const char *name, const char *value) {
  drop_attr(draft, name);
  if (draft->attr_count < KEEL_DRAFT_ATTRS)
    draft->attrs[draft->attr_count++] = (keel_attr)KEEL_STRING(name, value);
}

/* The type of an input; NULL where it is absent or not known. */
static const keel_type *type_of_input(const keel_draft *draft, uint32_t index) {
  uint32_t value =
      index < draft->input_count ? draft->inputs[index] : KEEL_ABSENT;
  return value == KEEL_ABSENT ? NULL : draft->function->values[value].type;
}

/* Fails where the draft lacks one of its first `count` inputs. */
static keel_status need_inputs(const keel_draft *draft, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (i >= draft->input_count || draft->inputs[i] == KEEL_ABSENT)
      return keel_fail(KD_DATA_LOSS,
                       "%s: node \"%s\" (%s-%lld): input %u is missing",
                       draft->path, draft->name, draft->op,
                       (long long)draft->opset, (unsigned)i);
  return KD_OK;
}

/* Puts a constant into an input; inputs between stay absent. */
static keel_status set_input(keel_draft *draft, uint32_t index, kd_dtype dtype,
                             uint32_t rank, int64_t count, const void *data) {
  keel_tensor *tensor = NULL;
  if (index < draft->input_count && draft->inputs[index] != KEEL_ABSENT)
    return upgrade_bad(draft, KD_DATA_LOSS,
                       "has an input that its opset does not have");
  KEEL_TRY(keel_tensor_create(draft->function->context, dtype, rank, &count,
                              data, &tensor));
  uint32_t value = keel_function_constant(draft->function, "", tensor);
  keel_tensor_release(tensor);
  if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  while (draft->input_count <= index)
    draft->inputs[draft->input_count++] = KEEL_ABSENT;
  draft->inputs[index] = value;
  return KD_OK;
}

/* An attribute of ints becomes an input. */
static keel_status ints_to_input(keel_draft *draft, const char *name,
                                 uint32_t index) {
  const keel_attr *attr = attr_of(draft, name, KD_ATTR_INTS);
  if (!attr) return KD_OK;
  KEEL_TRY(set_input(draft, index, KD_I64, 1, attr->count, attr->ints));
  drop_attr(draft, name);
  return KD_OK;
}

static uint32_t upgrade_read(void *context, char sigil, uint32_t index) {
  const keel_draft *draft = context;
  return sigil == '$' && index < draft->input_count ? draft->inputs[index]
                                                    : KEEL_ABSENT;
}

/* Writes a text (opsets/text.h) before the draft, whose inputs are its $0 ...; gives its value. */
static keel_status upgrade_text(keel_draft *draft, uint32_t *out_value,
                                const char *text, ...) {
  keel_emit all = {.function = draft->function, .node = {.name = draft->name}};
  const keel_text_of of = {.all = &all, .context = draft, .read = upgrade_read};
  va_list arguments;
  va_start(arguments, text);
  *out_value = keel_text_write(&of, text, arguments);
  va_end(arguments);
  return all.status;
}

/* An attribute of one float becomes an input of the data's type. */
static keel_status float_to_input(keel_draft *draft, const char *name,
                                  uint32_t index) {
  const keel_attr *attr = attr_of(draft, name, KD_ATTR_FLOAT);
  if (!attr) return KD_OK;
  KEEL_TRY(need_inputs(draft, 1));
  KEEL_TRY(set_input(draft, index, KD_F32, 0, 1, &attr->f));
  drop_attr(draft, name);
  return upgrade_text(draft, &draft->inputs[index], "CastLike(%v, $0)",
                      draft->inputs[index]);
}

/* ---- ops ------------------------------------------------------------------ */

/* Before 13, Softmax, LogSoftmax and Hardmax saw the input as a matrix, split
 * at `axis` (default 1): Flatten, op on the last axis, Reshape. */
static keel_status old_softmax(keel_draft *draft) {
  const keel_attr *given = attr_of(draft, "axis", KD_ATTR_INT);
  keel_attr axis = KEEL_INT("axis", given ? given->i : 1);
  uint32_t shape = 0;
  KEEL_TRY(need_inputs(draft, 1));
  if (axis.i == -1) {
    set_int(draft, "axis", -1);
    return KD_OK;
  }
  KEEL_TRY(upgrade_text(draft, &shape, "dims($0)"));
  KEEL_TRY(upgrade_text(draft, &draft->inputs[0],
                        "%s[axis=-1](Flatten[axis=%i]($0))", draft->op,
                        axis.i));
  draft->op = "Reshape";
  drop_attrs(draft);
  draft->inputs[1] = shape;
  draft->input_count = 2;
  return KD_OK;
}

static keel_status old_slice(keel_draft *draft) {
  KEEL_TRY(ints_to_input(draft, "starts", 1));
  KEEL_TRY(ints_to_input(draft, "ends", 2));
  return ints_to_input(draft, "axes", 3);
}

static keel_status old_pad(keel_draft *draft) {
  KEEL_TRY(ints_to_input(draft, "pads", 1));
  return float_to_input(draft, "value", 2);
}

static keel_status old_clip(keel_draft *draft) {
  KEEL_TRY(float_to_input(draft, "min", 1));
  return float_to_input(draft, "max", 2);
}

static keel_status old_top_k(keel_draft *draft) {
  const keel_attr *k = attr_of(draft, "k", KD_ATTR_INT);
  if (k) {
    KEEL_TRY(set_input(draft, 1, KD_I64, 1, 1, &k->i));
    drop_attr(draft, "k");
  }
  return KD_OK;
}

/* Upsample and Resize-10 are Resize with these modes. */
static keel_status old_resize(keel_draft *draft) {
  const keel_attr *mode = attr_of(draft, "mode", KD_ATTR_STRING);
  if (mode && !strcmp(mode->s, "bilinear")) set_string(draft, "mode", "linear");
  /* looked for here, as setting an attribute moves the others */
  const keel_attr *scales = attr_of(draft, "scales", KD_ATTR_FLOATS);
  if (scales) {
    KEEL_TRY(set_input(draft, 2, KD_F32, 1, scales->count, scales->floats));
    drop_attr(draft, "scales");
  } else if (draft->input_count == 2) {
    draft->inputs[2] = draft->inputs[1];
    draft->inputs[1] = KEEL_ABSENT;
    draft->input_count = 3;
  }
  set_string(draft, "coordinate_transformation_mode", "asymmetric");
  set_string(draft, "nearest_mode", "floor");
  draft->op = "Resize";
  return KD_OK;
}

static keel_status old_batch_norm(keel_draft *draft) {
  const keel_attr *spatial = attr_of(draft, "spatial", KD_ATTR_INT);
  if (spatial && spatial->i != 1)
    return upgrade_bad(draft, KD_UNIMPLEMENTED, "spatial = 0 is not supported");
  drop_attr(draft, "spatial");
  drop_attr(draft, "is_test");
  if (draft->output_count > 1)
    return upgrade_bad(draft, KD_UNIMPLEMENTED,
                       "training outputs before opset 14 are not supported");
  return KD_OK;
}

static keel_status old_dropout(keel_draft *draft) {
  drop_attr(draft, "ratio"); /* inference keeps everything */
  return KD_OK;
}

/* It was training where is_test did not say otherwise. */
static keel_status older_dropout(keel_draft *draft) {
  const keel_attr *test = attr_of(draft, "is_test", KD_ATTR_INT);
  const keel_attr *ratio = attr_of(draft, "ratio", KD_ATTR_FLOAT);
  if ((!test || !test->i) && !(ratio && ratio->f == 0))
    return upgrade_bad(
        draft, KD_UNIMPLEMENTED,
        "training (is_test = 0) before opset 12 is not supported");
  drop_attr(draft, "is_test");
  return old_dropout(draft);
}

/* It said whether the first output is wanted, as being named does. */
static keel_status old_rnn(keel_draft *draft) {
  drop_attr(draft, "output_sequence");
  return KD_OK;
}

static keel_status axes_to_input(keel_draft *draft) {
  return ints_to_input(draft, "axes", 1);
}

/* How many parts there are depends on how many outputs are written, whether or not
 * anything reads them. */
static keel_status new_split(keel_draft *draft) {
  draft->output_count = draft->outputs_written;
  for (uint32_t i = 0; i < draft->output_count; i++) {
    if (draft->outputs[i] != KEEL_ABSENT) continue;
    draft->outputs[i] = keel_function_value(draft->function, "");
    if (draft->outputs[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  }
  return KD_OK;
}

static keel_status old_split(keel_draft *draft) {
  KEEL_TRY(ints_to_input(draft, "split", 1));
  return new_split(draft);
}

static keel_status old_scatter(keel_draft *draft) {
  draft->op = "ScatterElements";
  return KD_OK;
}

static keel_status old_grid_sample(keel_draft *draft) {
  const keel_attr *mode = attr_of(draft, "mode", KD_ATTR_STRING);
  if (mode && !strcmp(mode->s, "bilinear"))
    set_string(draft, "mode", "linear");
  else if (mode && !strcmp(mode->s, "bicubic"))
    set_string(draft, "mode", "cubic");
  return KD_OK;
}

/* Regions were not moved by half a pixel. */
static keel_status old_roi_align(keel_draft *draft) {
  set_string(draft, "coordinate_transformation_mode", "output_half_pixel");
  return KD_OK;
}

static keel_status old_dft(keel_draft *draft) {
  const keel_attr *given = attr_of(draft, "axis", KD_ATTR_INT);
  int64_t axis = given ? given->i : 1;
  drop_attr(draft, "axis");
  return set_input(draft, 2, KD_I64, 0, 1, &axis);
}

/* Scale and bias were one for each group; now they are one for each channel. */
static keel_status widen_groups(keel_draft *draft, uint32_t index,
                                int64_t groups) {
  uint32_t *input = &draft->inputs[index];
  return upgrade_text(draft, input,
                      "each = dims($0, 1, 2) / {%i};"
                      "Reshape(Expand(Unsqueeze(%v, {1}), {1, each}), {-1})",
                      groups, *input);
}

static keel_status old_group_norm(keel_draft *draft) {
  const keel_attr *groups = attr_of(draft, "num_groups", KD_ATTR_INT);
  KEEL_TRY(need_inputs(draft, 3));
  if (!groups || draft->input_count != 3 || groups->i < 1)
    return upgrade_bad(draft, KD_DATA_LOSS,
                       "needs X, scale, bias, and num_groups of 1 or more");
  const int64_t count = groups->i;
  KEEL_TRY(widen_groups(draft, 1, count));
  return widen_groups(draft, 2, count);
}

/* Gives an input `count` dimensions of one element behind its own. */
static keel_status add_dims(keel_draft *draft, uint32_t index, uint32_t rank,
                            int64_t count) {
  int64_t axes[KD_MAX_RANK];
  uint32_t *input = &draft->inputs[index];
  if (rank + count > KD_MAX_RANK)
    return upgrade_bad(draft, KD_DATA_LOSS, "has too many dimensions");
  for (int64_t i = 0; i < count; i++)
    axes[i] = (int64_t)rank + i;
  return upgrade_text(draft, input, "Unsqueeze(%v, %l)", *input, axes, count);
}

/* Before 7, B was laid over A from dimension `axis` on: it gets dimensions of
 * one element behind, so that today's rule says the same. */
static keel_status widen_second(keel_draft *draft, int64_t axis) {
  KEEL_TRY(need_inputs(draft, 2));
  const keel_type *a = type_of_input(draft, 0), *b = type_of_input(draft, 1);
  if (!a || !b)
    return upgrade_bad(draft, KD_UNIMPLEMENTED,
                       "its old broadcast needs shapes that are not known");
  int64_t rank = a->rank;
  if (axis < -rank || axis > rank)
    return keel_fail(KD_DATA_LOSS,
                     "%s: node \"%s\" (%s-%lld): axis %lld is not in a tensor"
                     " of rank %u",
                     draft->path, draft->name, draft->op,
                     (long long)draft->opset, (long long)axis,
                     (unsigned)a->rank);
  int64_t missing = rank - (axis < 0 ? axis + rank : axis) - b->rank;
  return missing > 0 ? add_dims(draft, 1, b->rank, missing) : KD_OK;
}

static keel_status old_broadcast(keel_draft *draft) {
  const keel_attr *axis = attr_of(draft, "axis", KD_ATTR_INT);
  if (axis) KEEL_TRY(widen_second(draft, axis->i));
  drop_attr(draft, "axis");
  drop_attr(draft, "broadcast");
  return KD_OK;
}

/* PRelu's slope was one for each channel. */
static keel_status old_prelu(keel_draft *draft) {
  const keel_type *slope = type_of_input(draft, 1);
  return slope && slope->rank == 1 && slope->dims[0] == 1
             ? KD_OK
             : widen_second(draft, 1);
}

/* ---- which op changed when ------------------------------------------------ */

static const struct {
  const char *op;
  int64_t from, before; /* opsets that need the change */
  keel_status (*change)(keel_draft *draft);
} changes[] = {
    {"Add", 1, 7, old_broadcast},
    {"Sub", 1, 7, old_broadcast},
    {"Mul", 1, 7, old_broadcast},
    {"Div", 1, 7, old_broadcast},
    {"Pow", 1, 7, old_broadcast},
    {"And", 1, 7, old_broadcast},
    {"Or", 1, 7, old_broadcast},
    {"Xor", 1, 7, old_broadcast},
    {"Equal", 1, 7, old_broadcast},
    {"Greater", 1, 7, old_broadcast},
    {"Less", 1, 7, old_broadcast},
    {"Gemm", 1, 7, old_broadcast},
    {"PRelu", 1, 7, old_prelu},
    {"Softmax", 1, 13, old_softmax},
    {"LogSoftmax", 1, 13, old_softmax},
    {"Hardmax", 1, 13, old_softmax},
    {"Slice", 1, 10, old_slice},
    {"Pad", 1, 11, old_pad},
    {"Clip", 1, 11, old_clip},
    {"TopK", 1, 10, old_top_k},
    {"Upsample", 1, 99, old_resize},
    {"Resize", 10, 11, old_resize},
    {"BatchNormalization", 1, 14, old_batch_norm},
    {"Dropout", 1, 7, older_dropout},
    {"Dropout", 7, 12, old_dropout},
    {"RNN", 1, 7, old_rnn},
    {"GRU", 1, 7, old_rnn},
    {"LSTM", 1, 7, old_rnn},
    {"Squeeze", 1, 13, axes_to_input},
    {"Unsqueeze", 1, 13, axes_to_input},
    {"Split", 1, 13, old_split},
    {"Split", 13, 99, new_split},
    {"ReduceSum", 1, 13, axes_to_input},
    {"ReduceL1", 1, 18, axes_to_input},
    {"ReduceL2", 1, 18, axes_to_input},
    {"ReduceLogSum", 1, 18, axes_to_input},
    {"ReduceLogSumExp", 1, 18, axes_to_input},
    {"ReduceMax", 1, 18, axes_to_input},
    {"ReduceMean", 1, 18, axes_to_input},
    {"ReduceMin", 1, 18, axes_to_input},
    {"ReduceProd", 1, 18, axes_to_input},
    {"ReduceSumSquare", 1, 18, axes_to_input},
    {"Scatter", 1, 99, old_scatter},
    {"Scan", 1, 9, keel_upgrade_scan},
    {"GridSample", 16, 20, old_grid_sample},
    {"DFT", 17, 20, old_dft},
    {"GroupNormalization", 18, 21, old_group_norm},
    {"RoiAlign", 10, 16, old_roi_align},
};

static bool changed_since(const char *op, int64_t opset) {
  for (size_t i = 0; i < KEEL_COUNT_OF(changes); i++)
    if (!strcmp(changes[i].op, op)) return true;
  const keel_schema *schema = keel_schema_find("", op);
  return schema && schema->since > opset;
}

/* The newest version of a domain in which an op's meaning is known. */
static long long opset_known(const char *domain, const keel_schema *schema) {
  if (!*domain) return KEEL_OPSET_KNOWN;
  if (!strcmp(domain, "ai.onnx.ml")) return KEEL_ML_OPSET_KNOWN;
  return schema ? schema->since : 0;
}

/* A later opset may have given any op another meaning, which no result would show. */
static keel_status refuse_newer(const keel_draft *draft) {
  const keel_schema *schema =
      keel_op_find(draft->function->context, draft->domain, draft->op);
  bool standard = !*draft->domain;
  long long known = opset_known(draft->domain, schema);
  if (!schema || draft->opset <= known) return KD_OK;
  return keel_fail(
      KD_UNIMPLEMENTED,
      "%s: node \"%s\": %s of opset %lld%s%s: Keel knows what it means up to"
      " opset %lld, and a later one may have changed that; convert the model to"
      " opset %lld%s",
      draft->path, draft->name, draft->op, (long long)draft->opset,
      standard ? "" : " of ", draft->domain, known, known,
      standard ? " with onnx.version_converter" : "");
}

keel_status keel_draft_upgrade(keel_draft *draft) {
  KEEL_TRY(refuse_newer(draft));
  if (*draft->domain) return KD_OK;
  if (draft->opset < 6 && changed_since(draft->op, draft->opset))
    return upgrade_bad(
        draft, KD_UNIMPLEMENTED,
        "its form before opset 6 is not supported; convert the model"
        " with onnx.version_converter");
  drop_attr(draft, "consumed_inputs");
  for (size_t i = 0; i < KEEL_COUNT_OF(changes); i++)
    if (draft->opset >= changes[i].from && draft->opset < changes[i].before &&
        !strcmp(changes[i].op, draft->op))
      return changes[i].change(draft);
  return KD_OK;
}
