/* upgrade.c - brings nodes of older opsets to today's form by the rows of the op sets' tables
 * (keel_op_upgrade), which stand with each op's shapes; nodes of opsets that Keel does not know are
 * refused.
 *
 * ONNX's Changelog.md lists the changes, op by op and version by version; most versions only allow
 * more types. The other changes have rows: an attribute that became an input, a default that
 * changed, a name that was dropped. */
#include "opsets/onnx/upgrade.h"
#include "ops/vendor.h"
#include "opsets/text.h"
#include "program/draft.h"

/* ---- helpers -------------------------------------------------------------- */

keel_status keel_upgrade_bad(const keel_draft *draft, keel_status status,
                             const char *what) {
  return keel_fail(status, "%s: node \"%s\" (%s-%lld): %s", draft->path,
                   draft->name, draft->op, (long long)draft->opset, what);
}

static int attr_index(const keel_draft *draft, const char *name) {
  for (uint32_t i = 0; i < draft->attr_count; i++)
    if (!strcmp(draft->attrs[i].name, name)) return (int)i;
  return -1;
}

keel_attr *keel_upgrade_attr(keel_draft *draft, const char *name,
                             uint32_t kind) {
  int at = attr_index(draft, name);
  return at >= 0 && draft->attrs[at].kind == kind ? &draft->attrs[at] : NULL;
}

void keel_upgrade_drop(keel_draft *draft, const char *name) {
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

void keel_upgrade_drop_all(keel_draft *draft) {
  while (draft->attr_count)
    keel_upgrade_drop(draft, draft->attrs[draft->attr_count - 1].name);
}

void keel_upgrade_set_int(keel_draft *draft, const char *name, int64_t value) {
  keel_upgrade_drop(draft, name);
  if (draft->attr_count < KEEL_DRAFT_ATTRS)
    draft->attrs[draft->attr_count++] = (keel_attr)KEEL_INT(name, value);
}

void keel_upgrade_set_string(keel_draft *draft, const char *name,
                             const char *value) {
  keel_upgrade_drop(draft, name);
  if (draft->attr_count < KEEL_DRAFT_ATTRS)
    draft->attrs[draft->attr_count++] = (keel_attr)KEEL_STRING(name, value);
}

/* The type of an input; NULL where it is absent or not known. */
const keel_type *keel_upgrade_type(const keel_draft *draft, uint32_t index) {
  uint32_t value =
      index < draft->input_count ? draft->inputs[index] : KEEL_ABSENT;
  return value == KEEL_ABSENT ? NULL : draft->function->values[value].type;
}

/* Fails where the draft lacks one of its first `count` inputs. */
keel_status keel_upgrade_need(const keel_draft *draft, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (i >= draft->input_count || draft->inputs[i] == KEEL_ABSENT)
      return keel_fail(KD_DATA_LOSS,
                       "%s: node \"%s\" (%s-%lld): input %u is missing",
                       draft->path, draft->name, draft->op,
                       (long long)draft->opset, (unsigned)i);
  return KD_OK;
}

/* Puts a constant into an input; inputs between stay absent. */
keel_status keel_upgrade_input(keel_draft *draft, uint32_t index,
                               kd_dtype dtype, uint32_t rank, int64_t count,
                               const void *data) {
  keel_tensor *tensor = NULL;
  if (index < draft->input_count && draft->inputs[index] != KEEL_ABSENT)
    return keel_upgrade_bad(draft, KD_DATA_LOSS,
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
keel_status keel_upgrade_ints(keel_draft *draft, const char *name,
                              uint32_t index) {
  const keel_attr *attr = keel_upgrade_attr(draft, name, KD_ATTR_INTS);
  if (!attr) return KD_OK;
  KEEL_TRY(
      keel_upgrade_input(draft, index, KD_I64, 1, attr->count, attr->ints));
  keel_upgrade_drop(draft, name);
  return KD_OK;
}

static uint32_t upgrade_read(void *context, char sigil, uint32_t index) {
  const keel_draft *draft = context;
  return sigil == '$' && index < draft->input_count ? draft->inputs[index]
                                                    : KEEL_ABSENT;
}

/* Writes a text (opsets/text.h) before the draft, whose inputs are its $0 ...; gives its value. */
keel_status keel_upgrade_text(keel_draft *draft, uint32_t *out_value,
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
keel_status keel_upgrade_float(keel_draft *draft, const char *name,
                               uint32_t index) {
  const keel_attr *attr = keel_upgrade_attr(draft, name, KD_ATTR_FLOAT);
  if (!attr) return KD_OK;
  KEEL_TRY(keel_upgrade_need(draft, 1));
  KEEL_TRY(keel_upgrade_input(draft, index, KD_F32, 0, 1, &attr->f));
  keel_upgrade_drop(draft, name);
  return keel_upgrade_text(draft, &draft->inputs[index], "CastLike(%v, $0)",
                           draft->inputs[index]);
}

keel_status keel_upgrade_axes(keel_draft *draft) {
  return keel_upgrade_ints(draft, "axes", 1);
}

/* ---- broadcasting before opset 7 ---------------------------------------------- */

/* Gives an input `count` dimensions of one element behind its own. */
static keel_status add_dims(keel_draft *draft, uint32_t index, uint32_t rank,
                            int64_t count) {
  int64_t axes[KD_MAX_RANK];
  uint32_t *input = &draft->inputs[index];
  if (rank + count > KD_MAX_RANK)
    return keel_upgrade_bad(draft, KD_DATA_LOSS, "has too many dimensions");
  for (int64_t i = 0; i < count; i++)
    axes[i] = (int64_t)rank + i;
  return keel_upgrade_text(draft, input, "Unsqueeze(%v, %l)", *input, axes,
                           count);
}

/* Before 7, B was laid over A from dimension `axis` on: it gets dimensions of
 * one element behind, so that today's rule says the same. */
keel_status keel_upgrade_lay_over(keel_draft *draft, int64_t axis) {
  KEEL_TRY(keel_upgrade_need(draft, 2));
  const keel_type *a = keel_upgrade_type(draft, 0),
                  *b = keel_upgrade_type(draft, 1);
  if (!a || !b)
    return keel_upgrade_bad(
        draft, KD_UNIMPLEMENTED,
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

keel_status keel_upgrade_broadcast(keel_draft *draft) {
  const keel_attr *axis = keel_upgrade_attr(draft, "axis", KD_ATTR_INT);
  if (axis) KEEL_TRY(keel_upgrade_lay_over(draft, axis->i));
  keel_upgrade_drop(draft, "axis");
  keel_upgrade_drop(draft, "broadcast");
  return KD_OK;
}

/* ---- which op changed when ------------------------------------------------ */

/* The upgrade of an op from that opset; without `opset` (0) its first. NULL: there is none. */
static const keel_op_upgrade *upgrade_find(const char *op, int64_t opset) {
  const keel_registry *all = keel_registry_get();
  for (uint32_t i = 0; i < all->table_count; i++) {
    const keel_op_table *table = all->tables[i];
    for (uint32_t k = 0; k < table->upgrade_count; k++) {
      const keel_op_upgrade *one = &table->upgrades[k];
      if ((!opset || (opset >= one->from && opset < one->before)) &&
          !strcmp(one->op, op))
        return one;
    }
  }
  return NULL;
}

static bool changed_since(const char *op, int64_t opset) {
  const keel_schema *schema = keel_schema_find("", op);
  return upgrade_find(op, 0) || (schema && schema->since > opset);
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
    return keel_upgrade_bad(
        draft, KD_UNIMPLEMENTED,
        "its form before opset 6 is not supported; convert the model"
        " with onnx.version_converter");
  keel_upgrade_drop(draft, "consumed_inputs");
  const keel_op_upgrade *one = upgrade_find(draft->op, draft->opset);
  return one ? one->upgrade(draft) : KD_OK;
}
