/* node.c - ops with their attributes, and the table that plugins read them by. */
#include "ops/node.h"
#include "memory/access.h"

#include <kd/help.h>

#include "base/refs.h"
#include "device/device.h"
#include "memory/mapping.h"
#include "values/strings.h"

/* ---- attributes ----------------------------------------------------------- */

static const keel_attr_rule *rule_of(const keel_schema *schema,
                                     const char *name) {
  for (uint32_t i = 0; i < schema->attr_count; i++)
    if (!strcmp(schema->attrs[i].name, name)) return &schema->attrs[i];
  return NULL;
}

static const char *kind_name(uint32_t kind) {
  static const char *const names[] = {"nothing",  "a float",  "an int",
                                      "a string", "a tensor", "a graph",
                                      "floats",   "ints",     "strings"};
  return kind < KEEL_COUNT_OF(names) ? names[kind] : "something";
}

static bool copy_strings(keel_arena *arena, keel_attr *to) {
  const char **strings =
      keel_arena_take(arena, (to->count + 1) * sizeof(char *));
  for (uint32_t i = 0; strings && i < to->count; i++) {
    strings[i] = keel_arena_copy(arena, to->strings[i]);
    if (!strings[i]) return false;
  }
  to->strings = strings;
  return strings != NULL;
}

static keel_status copy_attr(keel_opdef *op, const keel_attr *from,
                             keel_node_attr *to) {
  keel_arena *arena = &op->arena;
  keel_attr *value = &to->value;
  *value = *from;
  bool whole = (value->name = keel_arena_copy(arena, from->name)) != NULL;
  switch (from->kind) {
    case KD_ATTR_STRING:
      whole = whole && (value->s = keel_arena_copy(arena, from->s)) != NULL;
      break;
    case KD_ATTR_INTS:
      value->ints = keel_arena_copy_bytes(arena, from->ints,
                                          from->count * sizeof *from->ints);
      whole = whole && value->ints;
      break;
    case KD_ATTR_FLOATS:
      value->floats = keel_arena_copy_bytes(arena, from->floats,
                                            from->count * sizeof *from->floats);
      whole = whole && value->floats;
      break;
    case KD_ATTR_STRINGS:
      whole = whole && copy_strings(arena, value);
      break;
    case KD_ATTR_TENSOR:
      if (!whole) return KD_OUT_OF_MEMORY;
      return keel_is_strings(from->tensor)
                 ? keel_tensor_to(from->tensor, NULL, &value->tensor)
                 : keel_tensor_to_host(from->tensor, &value->tensor);
    default:
      break;
  }
  return whole ? KD_OK : KD_OUT_OF_MEMORY;
}

static bool is_choice(const char *choices, const char *word) {
  size_t size = strlen(word);
  for (const char *at = choices; at; at = strchr(at, '|')) {
    at += *at == '|';
    if (strcspn(at, "|") == size && !strncmp(at, word, size)) return true;
  }
  return false;
}

static keel_status check_attr(const keel_schema *schema, const keel_attr *attr,
                              const keel_opdef *op) {
  const keel_attr_rule *rule = rule_of(schema, attr->name);
  if (!rule) {
    keel_text known = {0};
    for (uint32_t i = 0; i < schema->attr_count; i++)
      keel_text_add(&known, "%s%s", i ? ", " : "", schema->attrs[i].name);
    keel_fail(KD_INVALID_ARGUMENT, "%s has no attribute \"%s\"; it has %s",
              schema->name, attr->name,
              known.size ? keel_text_get(&known) : "none");
    keel_text_free(&known);
    return KD_INVALID_ARGUMENT;
  }
  if (rule->kind != attr->kind)
    return keel_fail(KD_INVALID_ARGUMENT, "%s: attribute \"%s\" is %s, not %s",
                     schema->name, attr->name, kind_name(rule->kind),
                     kind_name(attr->kind));
  if (rule->choices && !is_choice(rule->choices, attr->s))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "%s: attribute \"%s\" is \"%s\", and not one of %s",
                     schema->name, attr->name, attr->s, rule->choices);
  if (attr->kind == KD_ATTR_TENSOR && !attr->tensor)
    return keel_fail(KD_INVALID_ARGUMENT, "%s: attribute \"%s\" has no tensor",
                     schema->name, attr->name);
  if (keel_attr_find(op, attr->name))
    return keel_fail(KD_INVALID_ARGUMENT, "%s: attribute \"%s\" is given twice",
                     schema->name, attr->name);
  return KD_OK;
}

uint64_t keel_attr_hash(uint64_t hash, const keel_attr *attr) {
  hash = keel_hash_string(hash, attr->name);
  switch (attr->kind) {
    case KD_ATTR_INT:
      return keel_hash(hash, &attr->i, sizeof attr->i);
    case KD_ATTR_FLOAT:
      return keel_hash(hash, &attr->f, sizeof attr->f);
    case KD_ATTR_STRING:
      return keel_hash_string(hash, attr->s);
    case KD_ATTR_INTS:
      return keel_hash(hash, attr->ints, attr->count * sizeof *attr->ints);
    case KD_ATTR_FLOATS:
      return keel_hash(hash, attr->floats, attr->count * sizeof *attr->floats);
    default:
      return hash;
  }
}

static keel_status node_fill(keel_opdef *op, const keel_attr *attrs,
                             uint32_t count,
                             struct keel_function *const *graphs) {
  const keel_schema *schema = op->schema;
  if (count) {
    op->attrs = keel_arena_take(&op->arena, count * sizeof *op->attrs);
    if (!op->attrs) return KD_OUT_OF_MEMORY;
  }
  op->hash = keel_hash(KEEL_HASH_SEED, &schema, sizeof schema);
  op->shareable = true;
  for (uint32_t i = 0; i < count; i++) {
    KEEL_TRY(check_attr(schema, &attrs[i], op));
    KEEL_TRY(copy_attr(op, &attrs[i], &op->attrs[i]));
    op->attrs[i].graph = graphs ? graphs[i] : NULL;
    op->attr_count++;
    op->hash = keel_attr_hash(op->hash, &attrs[i]);
    op->shareable &= attrs[i].kind != KD_ATTR_TENSOR &&
                     attrs[i].kind != KD_ATTR_GRAPH &&
                     attrs[i].kind != KD_ATTR_STRINGS;
  }
  for (uint32_t i = 0; i < schema->attr_count; i++)
    if (schema->attrs[i].required && !keel_attr_find(op, schema->attrs[i].name))
      return keel_fail(KD_INVALID_ARGUMENT, "%s needs attribute \"%s\" (%s)",
                       schema->name, schema->attrs[i].name,
                       kind_name(schema->attrs[i].kind));
  return KD_OK;
}

keel_status keel_opdef_create(keel_context *context, const keel_schema *schema,
                              const keel_attr *attrs, uint32_t attr_count,
                              struct keel_function *const *graphs,
                              keel_opdef **out_op) {
  keel_opdef *op = calloc(1, sizeof *op);
  if (!op) return keel_no_memory(sizeof *op);
  keel_refs_init(&op->refs);
  op->context = context;
  op->schema = schema;
  keel_status status = node_fill(op, attrs, attr_count, graphs);
  if (status != KD_OK) {
    keel_opdef_release(op);
    return status;
  }
  *out_op = op;
  return KD_OK;
}

keel_opdef *keel_opdef_retain(keel_opdef *op) {
  keel_refs_take(&op->refs);
  return op;
}

void keel_opdef_release(keel_opdef *op) {
  if (!op || !keel_refs_drop(&op->refs)) return;
  for (uint32_t i = 0; i < op->attr_count; i++)
    if (op->attrs[i].value.kind == KD_ATTR_TENSOR)
      keel_tensor_release(op->attrs[i].value.tensor);
  void *prepared = atomic_load_explicit(&op->prepared, memory_order_relaxed);
  void (*forget)(void *) =
      atomic_load_explicit(&op->forget, memory_order_relaxed);
  if (prepared) forget(prepared);
  keel_arena_free(&op->arena);
  free(op);
}

keel_status keel_opdef_prepare(const keel_opdef *op,
                               keel_status (*make)(const keel_opdef *op,
                                                   void **out_made),
                               void (*forget)(void *prepared),
                               const void **out_prepared) {
  keel_opdef *self = (keel_opdef *)(uintptr_t)op;
  /* acquire: pairs with the release below */
  void *there = atomic_load_explicit(&self->prepared, memory_order_acquire);
  if (!there) {
    void *made = NULL;
    KEEL_TRY(make(op, &made));
    /* the same from any thread, and from several at once */
    atomic_store_explicit(&self->forget, forget, memory_order_relaxed);
    if (atomic_compare_exchange_strong_explicit(&self->prepared, &there, made,
                                                memory_order_acq_rel,
                                                memory_order_acquire))
      there = made;
    else
      forget(made); /* another thread was first */
  }
  *out_prepared = there;
  return KD_OK;
}

bool keel_attr_equal(const keel_attr *a, const keel_attr *b) {
  if (strcmp(a->name, b->name) != 0 || a->kind != b->kind) return false;
  switch (a->kind) {
    case KD_ATTR_INT:
      return a->i == b->i;
    case KD_ATTR_FLOAT:
      return !memcmp(&a->f, &b->f, sizeof a->f);
    case KD_ATTR_STRING:
      return !strcmp(a->s, b->s);
    case KD_ATTR_INTS:
      return a->count == b->count &&
             !memcmp(a->ints, b->ints, a->count * sizeof *a->ints);
    case KD_ATTR_FLOATS:
      return a->count == b->count &&
             !memcmp(a->floats, b->floats, a->count * sizeof *a->floats);
    default:
      return false;
  }
}

bool keel_opdef_equal(const keel_opdef *a, const keel_opdef *b) {
  if (a == b) return true;
  if (a->hash != b->hash || a->schema != b->schema ||
      a->attr_count != b->attr_count || !a->shareable || !b->shareable)
    return false;
  for (uint32_t i = 0; i < a->attr_count; i++)
    if (!keel_attr_equal(&a->attrs[i].value, &b->attrs[i].value)) return false;
  return true;
}

/* ---- reading -------------------------------------------------------------- */

const keel_node_attr *keel_attr_find(const keel_opdef *op, const char *name) {
  for (uint32_t i = 0; i < op->attr_count; i++)
    if (!strcmp(op->attrs[i].value.name, name)) return &op->attrs[i];
  return NULL;
}

static const keel_attr *given(const keel_opdef *op, const char *name,
                              uint32_t kind) {
  const keel_node_attr *attr = keel_attr_find(op, name);
  return attr && attr->value.kind == kind ? &attr->value : NULL;
}

static const keel_attr_rule *defaulted(const keel_opdef *op, const char *name,
                                       uint32_t kind) {
  const keel_attr_rule *rule = rule_of(op->schema, name);
  return rule && rule->has_default && rule->kind == kind ? rule : NULL;
}

int64_t keel_attr_int(const keel_opdef *op, const char *name,
                      int64_t fallback) {
  const keel_attr *attr = given(op, name, KD_ATTR_INT);
  if (attr) return attr->i;
  const keel_attr_rule *rule = defaulted(op, name, KD_ATTR_INT);
  return rule ? rule->i : fallback;
}

float keel_attr_float(const keel_opdef *op, const char *name, float fallback) {
  const keel_attr *attr = given(op, name, KD_ATTR_FLOAT);
  if (attr) return attr->f;
  const keel_attr_rule *rule = defaulted(op, name, KD_ATTR_FLOAT);
  return rule ? rule->f : fallback;
}

const char *keel_attr_string(const keel_opdef *op, const char *name,
                             const char *fallback) {
  const keel_attr *attr = given(op, name, KD_ATTR_STRING);
  if (attr) return attr->s;
  const keel_attr_rule *rule = defaulted(op, name, KD_ATTR_STRING);
  return rule ? rule->s : fallback;
}

int64_t keel_attr_ints(const keel_opdef *op, const char *name,
                       const int64_t **out_values) {
  const keel_attr *attr = given(op, name, KD_ATTR_INTS);
  *out_values = attr ? attr->ints : NULL;
  return attr ? (int64_t)attr->count : -1;
}

struct keel_function *keel_attr_graph(const keel_opdef *op, const char *name) {
  const keel_node_attr *attr = keel_attr_find(op, name);
  return attr ? attr->graph : NULL;
}

/* ---- kd_node_table -------------------------------------------------------- */

static const char *node_op(const kd_node *node) {
  return node->op->schema->name;
}

static const char *node_domain(const kd_node *node) {
  return node->op->schema->domain;
}

static const char *node_name(const kd_node *node) {
  return node->name ? node->name : "";
}

static uint32_t node_opset(const kd_node *node) {
  return node->op->schema->since;
}

static uint32_t node_input_count(const kd_node *node) {
  return node->input_count;
}

static uint32_t node_output_count(const kd_node *node) {
  return node->output_count;
}

static kd_status give_type(const keel_type *const *types, uint32_t count,
                           uint32_t index, kd_type *out_type) {
  *out_type = (kd_type){0};
  if (index >= count) return KD_OUT_OF_RANGE;
  if (!types[index]) return KD_NOT_FOUND;
  *out_type = keel_type_view(types[index]);
  return KD_OK;
}

static kd_status node_input_type(const kd_node *node, uint32_t index,
                                 kd_type *out_type) {
  kd_status status =
      give_type(node->inputs, node->input_count, index, out_type);
  if (status == KD_OK) out_type->layout = keel_node_layout(node, index);
  return status;
}

static kd_status node_output_type(const kd_node *node, uint32_t index,
                                  kd_type *out_type) {
  kd_status status =
      give_type(node->outputs, node->output_count, index, out_type);
  if (status == KD_OK && index == 0) out_type->layout = node->output_layout;
  return status;
}

static kd_tensor host_view(const keel_tensor *tensor) {
  return (kd_tensor){
      .data = tensor->data,
      .size = tensor->type->bytes,
      .dims = tensor->type->dims,
      .dtype = tensor->type->dtype,
      .rank = tensor->type->rank,
      .flags = KD_TENSOR_HOST | KD_TENSOR_CONSTANT,
  };
}

keel_status keel_constant_view(keel_tensor *constant, kd_tensor *out_tensor) {
  keel_tensor *tensor = NULL;
  KEEL_TRY(keel_mapping_borrow(constant, &tensor));
  *out_tensor = host_view(tensor);
  return KD_OK;
}

static kd_status node_constant(const kd_node *node, uint32_t index,
                               kd_tensor *out_tensor) {
  if (index >= node->input_count || !node->constants ||
      !node->constants[index] || keel_is_strings(node->constants[index]))
    return KD_NOT_FOUND;
  return keel_constant_view(node->constants[index], out_tensor);
}

static uint64_t node_constant_id(const kd_node *node, uint32_t index) {
  return index >= node->input_count || !node->constants ||
                 !node->constants[index] ||
                 keel_is_strings(node->constants[index])
             ? 0
             : keel_tensor_identity(node->constants[index]);
}

static uint32_t node_attr_kind(const kd_node *node, const char *name) {
  const keel_node_attr *attr = keel_attr_find(node->op, name);
  if (attr) return attr->value.kind;
  const keel_attr_rule *rule = rule_of(node->op->schema, name);
  return rule && rule->has_default ? rule->kind : KD_ATTR_ABSENT;
}

static int64_t node_attr_int(const kd_node *node, const char *name,
                             int64_t fallback) {
  return keel_attr_int(node->op, name, fallback);
}

static float node_attr_float(const kd_node *node, const char *name,
                             float fallback) {
  return keel_attr_float(node->op, name, fallback);
}

static const char *node_attr_string(const kd_node *node, const char *name,
                                    const char *fallback) {
  return keel_attr_string(node->op, name, fallback);
}

static int64_t node_attr_ints(const kd_node *node, const char *name,
                              const int64_t **out_values) {
  return keel_attr_ints(node->op, name, out_values);
}

static int64_t node_attr_floats(const kd_node *node, const char *name,
                                const float **out_values) {
  const keel_attr *attr = given(node->op, name, KD_ATTR_FLOATS);
  *out_values = attr ? attr->floats : NULL;
  return attr ? (int64_t)attr->count : -1;
}

static int64_t node_attr_strings(const kd_node *node, const char *name,
                                 const char *const **out_values) {
  const keel_attr *attr = given(node->op, name, KD_ATTR_STRINGS);
  *out_values = attr ? attr->strings : NULL;
  return attr ? (int64_t)attr->count : -1;
}

static kd_status node_attr_tensor(const kd_node *node, const char *name,
                                  kd_tensor *out_tensor) {
  const keel_attr *attr = given(node->op, name, KD_ATTR_TENSOR);
  if (!attr) return KD_NOT_FOUND;
  if (keel_is_strings(attr->tensor)) return KD_UNIMPLEMENTED;
  *out_tensor = host_view(attr->tensor);
  return KD_OK;
}

/* The schema's default of an attribute that is not given. */
static bool is_default(const kd_node *node, const keel_attr_rule *rule) {
  return rule->has_default && !keel_attr_find(node->op, rule->name);
}

static const char *node_attr_name(const kd_node *node, uint32_t index) {
  const keel_opdef *op = node->op;
  if (index < op->attr_count) return op->attrs[index].value.name;
  index -= op->attr_count;
  for (uint32_t i = 0; i < op->schema->attr_count; i++)
    if (is_default(node, &op->schema->attrs[i]) && index-- == 0)
      return op->schema->attrs[i].name;
  return NULL;
}

static uint32_t node_attr_count(const kd_node *node) {
  uint32_t count = node->op->attr_count;
  for (uint32_t i = 0; i < node->op->schema->attr_count; i++)
    count += is_default(node, &node->op->schema->attrs[i]);
  return count;
}

static const kd_graph *node_attr_graph(const kd_node *node, const char *name) {
  for (uint32_t i = 0; node->graphs && i < node->op->attr_count; i++)
    if (!strcmp(node->op->attrs[i].value.name, name)) return node->graphs[i];
  return NULL;
}

const kd_node_table keel_node_table = {
    .struct_size = sizeof(kd_node_table),
    .op = node_op,
    .domain = node_domain,
    .name = node_name,
    .opset = node_opset,
    .input_count = node_input_count,
    .output_count = node_output_count,
    .input_type = node_input_type,
    .output_type = node_output_type,
    .constant = node_constant,
    .attr_kind = node_attr_kind,
    .attr_int = node_attr_int,
    .attr_float = node_attr_float,
    .attr_string = node_attr_string,
    .attr_ints = node_attr_ints,
    .attr_floats = node_attr_floats,
    .attr_strings = node_attr_strings,
    .attr_tensor = node_attr_tensor,
    .attr_count = node_attr_count,
    .attr_name = node_attr_name,
    .attr_graph = node_attr_graph,
    .constant_id = node_constant_id,
};
